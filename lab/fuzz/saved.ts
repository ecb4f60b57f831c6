import { createHash } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { readTrace, rowOf, type Trace } from "../../core/trace/trace.ts";
import { openTrace } from "../../traces/open.ts";
import { writeMooncake } from "../../traces/write-mooncake.ts";
import { version } from "../package.ts";
import { checkOperations, readOperations } from "../run/operations-file.ts";
import type { FuzzCase } from "./kinds.ts";
import type { Finding } from "./search.ts";
import type { Setup } from "./setup.ts";

const schema = "fuzz-case/1";

/** The files of a counterexample: a trace and operations that every command reads, and the setup that serves them. */
export interface Saved {
  readonly name: string;
  readonly file: string;
  readonly traceFile: string;
  /** Undefined without operations. */
  readonly operationsFile?: string;
}

/** Writes the files of a finding. Equal cases have equal names. */
export async function saveFinding(folder: string, finding: Finding, seed: number): Promise<Saved> {
  const { kind, trace, setup, operations, message } = finding;
  const hash = createHash("sha256").update(JSON.stringify([setup, lines(trace), operations]));
  const name = `${kind.name}-${hash.digest("hex").slice(0, 8)}`;
  const saved = { name, file: join(folder, `${name}.json`), traceFile: await saveTrace(folder, name, trace) };
  const operationsFile = join(folder, `${name}-operations.jsonl`);
  const operationLines =
    operations.length === 0 ? undefined : operations.map((one) => `${JSON.stringify(one)}\n`).join("");
  if (operationLines !== undefined) await writeOrThrow(operationsFile, () => writeFile(operationsFile, operationLines));
  const found = { message, seed, kvlab: version };
  const files = { trace: `${name}.jsonl`, ...(operationLines && { operations: basename(operationsFile) }) };
  const document = { schema, against: kind.name, ...files, setup, found };
  await writeOrThrow(saved.file, () => writeFile(saved.file, `${JSON.stringify(document, undefined, 2)}\n`));
  return { ...saved, ...(operationLines && { operationsFile }) };
}

/** Returns the trace's file. @throws InputError if it cannot be written */
export async function saveTrace(folder: string, name: string, trace: Trace): Promise<string> {
  const file = join(folder, `${name}.jsonl`);
  makeFolder(folder);
  if (trace.unitTokens > 1) await writeMooncake(trace, file);
  else await writeOrThrow(file, () => writeFile(file, lines(trace)));
  return file;
}

async function writeOrThrow(path: string, write: () => Promise<unknown>): Promise<void> {
  try {
    await write();
  } catch (error) {
    throw new InputError(`${path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}

/** Requests in the token-ids format, with the optional fields of the other columns. */
function lines(trace: Trace): string {
  const requests = Array.from({ length: trace.requestCount }, (_, r) => {
    const row = rowOf(trace, r);
    return JSON.stringify({
      arrival_time_ns: row.arrivalNs,
      input_toks: row.inputTokens,
      output_toks: row.outputTokens,
      input_tok_ids: Array.from(row.keys),
      output_tok_ids: Array.from(row.generatedKeys ?? { length: row.outputTokens }, (token) => token ?? 0),
      max_output_length: row.maxOutputTokens,
      parent: row.parent,
      session_id: row.session === 0 ? undefined : row.session,
      think_ns: row.thinkNs,
      priority: row.priority,
      retention_ns: row.retentionNs,
      namespace: row.namespace,
      marked_tokens: row.markedTokens,
      tool: row.tool === 0 ? null : row.tool,
      next_use_ns: row.nextUseNs,
      next_use_steps: row.nextUseSteps,
      keep_ns: row.keepNs,
      session_end: row.sessionEnd,
    });
  });
  return requests.map((line) => `${line}\n`).join("");
}

/** Former names of searches, which saved findings may have. */
const formerNames: Readonly<Record<string, string>> = { books: "event-log" };

/** Reads a finding by its name in the folder, or by its file. @throws InputError if there is none */
export async function readSaved(
  folder: string,
  nameOrFile: string,
): Promise<FuzzCase & { readonly against: string; readonly saved: Saved }> {
  const isName = basename(nameOrFile) === nameOrFile && !nameOrFile.endsWith(".json");
  const file = isName ? join(folder, `${nameOrFile}.json`) : nameOrFile;
  const { against, trace, operations, setup } = parsed(file, await textOf(file));
  const beside = (name: string) => join(dirname(file), name);
  const saved = {
    ...{ name: basename(file, ".json"), file, traceFile: beside(trace) },
    ...(operations !== undefined && { operationsFile: beside(operations) }),
  };
  const read = await readTrace(await openTrace([saved.traceFile]));
  const found = saved.operationsFile === undefined ? undefined : await readOperations(saved.operationsFile);
  if (found) checkOperations(found, read);
  return {
    ...{ against: formerNames[against] ?? against, setup, saved },
    trace: read,
    operations: found?.operations ?? [],
  };
}

async function textOf(file: string): Promise<string> {
  try {
    if (!(await stat(file)).isFile()) throw new Error("is not a regular file");
    return await readFile(file, "utf8");
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new InputError(
      `${file}: ${code === "ENOENT" ? "no such counterexample" : `cannot be read (${code ?? message})`}`,
    );
  }
}

interface SavedDocument {
  readonly schema?: unknown;
  readonly against: string;
  readonly trace: string;
  readonly operations?: string;
  readonly setup: Setup;
}

function parsed(file: string, text: string): SavedDocument {
  let found: SavedDocument | null = null;
  try {
    found = JSON.parse(text);
  } catch {
    // Reported below.
  }
  if (found?.schema !== schema) throw new InputError(`${file}: is not a counterexample, expected schema ${schema}`);
  return found;
}
