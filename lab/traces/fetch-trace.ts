import { rename, rm, stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { nearest } from "../../core/nearest.ts";
import { replaceable } from "../../traces/replace-file.ts";
import { type Control, Interrupted } from "../control.ts";
import { checkWritable } from "../output/run-directory.ts";
import { download, exists, originOf, sha256Of } from "./download.ts";
import { type PublicTrace, publicTraces } from "./public-traces.ts";

/** Where a trace is saved. */
export interface FetchTraceOptions extends Control {
  /** Folder to save the trace in. Default: the current one. */
  readonly to?: string;
  /** The SHA-256 that the file must have, in hexadecimal; by default that of the catalogue. */
  readonly sha256?: string;
  /** Replaces the file if it exists. */
  readonly force?: boolean | undefined;
}

/** A trace that was downloaded, or was there already. */
export interface FetchedTrace {
  readonly path: string;
  readonly url: string;
  readonly bytes: number;
  readonly sha256: string;
  /** The checksum is that of the catalogue or of `sha256`; false if there is none. */
  readonly isChecked: boolean;
  /** The file was there already, with the expected checksum. */
  readonly isPresent: boolean;
  /** The bytes that were there from an interrupted call. */
  readonly resumedFrom: number;
  /** The entry of the catalogue. */
  readonly trace?: PublicTrace;
}

/**
 * Downloads a public trace by its name in the catalogue, or from an address. An interrupted download is resumed by the next call.
 * The file has its final name only after its SHA-256 was checked; beside it, `FILE.source.json` records address, length, checksum
 * and licence. `kvlab trace fetch`.
 *
 * @throws InputError if there is no such trace, or it cannot be received, has another checksum, or cannot be written; Interrupted
 */
export async function fetchTrace(name: string, options: FetchTraceOptions = {}): Promise<FetchedTrace> {
  const { to = ".", force, progress, signal } = options;
  const entry = entryOf(name);
  const { url, file } = entry;
  const expected = checksumOf(options.sha256) ?? entry.trace?.sha256;
  const path = join(to, file);
  await checkWritable(path, to);
  const target = await replaceable(path);
  if (!force && (await exists(target))) return await present(path, url, expected, entry.trace);
  makeFolder(to);
  const part = `${target}.part`;
  const doing = `fetching ${basename(file)}`;
  progress?.({ doing, done: 0 });
  const advance = (done: number, total: number | undefined) => {
    if (total !== undefined) progress?.({ doing, done, total });
    else progress?.({ doing: `${doing}: ${Math.floor(done / 1e6)} MB`, done: 0 });
  };
  const got = await download({ url, part, advance, signal }).catch(async (error: unknown) => {
    if (!signal?.aborted) throw error;
    throw new Interrupted((await exists(part)) ? `: ${part} has the bytes so far, the same command resumes` : "");
  });
  const { bytes, sha256, resumedFrom } = got;
  await rm(originOf(part), { force: true });
  if (expected !== undefined && sha256 !== expected) {
    await rm(part, { force: true });
    throw new InputError(
      `${url}: the SHA-256 of its ${bytes} bytes is ${sha256}, expected ${expected}; nothing was saved (--sha256 states another one)`,
    );
  }
  await rename(part, target);
  const { trace } = entry;
  await writeFile(`${target}.source.json`, source({ url, bytes, sha256 }, trace));
  return {
    path,
    url,
    bytes,
    sha256,
    isChecked: expected !== undefined,
    isPresent: false,
    resumedFrom,
    ...optional(trace),
  };
}

const optional = (trace: PublicTrace | undefined) => (trace ? { trace } : {});

/** The record beside a file. */
function source(received: { url: string; bytes: number; sha256: string }, trace: PublicTrace | undefined): string {
  const { name, format, licence, cite } = trace ?? {};
  const document = { schema: "trace-source/1", ...(name && { name }), ...received, format, licence, cite };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

/** @throws InputError unless the file that exists has the expected checksum */
async function present(
  path: string,
  url: string,
  expected: string | undefined,
  trace: PublicTrace | undefined,
): Promise<FetchedTrace> {
  if (expected === undefined) throw new InputError(`${path}: already exists; --force replaces it`);
  const sha256 = await sha256Of(path);
  if (sha256 !== expected)
    throw new InputError(
      `${path}: already exists with the SHA-256 ${sha256}, expected ${expected}; --force replaces it`,
    );
  const { size } = await stat(path);
  return { path, url, bytes: size, sha256, isChecked: true, isPresent: true, resumedFrom: 0, ...optional(trace) };
}

interface Entry {
  readonly url: string;
  readonly file: string;
  readonly trace: PublicTrace | undefined;
}

/** @throws InputError if the name is neither in the catalogue nor an address */
function entryOf(name: string): Entry {
  const trace = publicTraces.find((each) => each.name === name);
  if (trace) return { url: trace.url, file: trace.file, trace };
  if (/^https?:\/\//i.test(name)) {
    if (!URL.canParse(name)) throw new InputError(`${name}: is not a valid address`);
    const file = decodeURIComponent(basename(new URL(name).pathname));
    if (file === "" || /[\\/\0]/.test(file) || file === "." || file === "..")
      throw new InputError(`${name}: does not end in the name of a file`);
    return { url: name, file, trace: undefined };
  }
  const near = nearest(
    name,
    publicTraces.map((each) => each.name),
  );
  throw new InputError(
    `unknown trace "${name}"${near ? `: did you mean "${near}"?` : ""} (kvlab trace fetch lists the names; an address begins with https://)`,
  );
}

function checksumOf(text: string | undefined): string | undefined {
  if (text === undefined || /^[0-9a-f]{64}$/i.test(text)) return text?.toLowerCase();
  throw new InputError(`--sha256 is "${text}", expected 64 hexadecimal digits`);
}

/** The traces that `fetchTrace` downloads by name. */
export const listPublicTraces = (): readonly PublicTrace[] => publicTraces;
