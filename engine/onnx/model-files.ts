import { createHash, randomUUID } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { homedir, hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import type { DecoderConfig, WeightSource } from "../model/decoder.ts";
import { decoderGraph } from "./decoder.ts";
import type { OnnxBits } from "./quantized.ts";

/** Incremented when graphs or files change, so that files of older versions are not used. */
const version = 8;
const modelFile = "model.onnx";
const dataFile = "weights.bin";
/** Written last: if it exists, the other files are complete. */
const contentsFile = "contents.json";

interface Contents {
  readonly modelSha256: string;
  readonly dataBytes: number;
  /** Cheap enough to be verified at every start; detects any single flipped bit. */
  readonly dataCrc32: number;
}

/** The default folder of converted models. */
export function modelCacheFolder(): string {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "kvlab", "models");
}

export interface ModelFileOptions {
  /** Folder of the converted models. */
  readonly folder?: string;
  /** 32 by default. */
  readonly bits?: OnnxBits;
}

/**
 * The ONNX model of a decoder, in a separate folder; converted if the folder is missing or incomplete. One tensor at a time is
 * in memory. A complete folder is renamed to its final name, so that other processes see all files or none.
 *
 * @returns the path of the model
 * @throws InputError if it cannot be written
 */
export async function modelFiles(
  config: DecoderConfig,
  weights: WeightSource,
  { folder = modelCacheFolder(), bits = 32 }: ModelFileOptions = {},
): Promise<string> {
  const target = join(folder, fingerprintOf(config, weights, bits));
  const model = join(target, modelFile);
  if (await isComplete(target)) return model;
  const temporary = `${target}.${hostname()}.${process.pid}.${randomUUID()}`;
  try {
    makeFolder(temporary);
    await removeLeftovers(folder, temporary);
    await write(temporary, config, weights, bits);
    await replace(target, temporary);
  } catch (error) {
    const { cause = error } = error as Error;
    if ((cause as NodeJS.ErrnoException).code === undefined) throw error;
    // The rest of the system's message repeats the path.
    const [reason] = (cause as Error).message.split(", ");
    throw new InputError(`${dirname(model)}: the model cannot be written: ${reason}`);
  } finally {
    await rm(temporary, { recursive: true, force: true }).catch(() => {});
  }
  return model;
}

/** Another process may have converted the model meanwhile and may have it open; only an incomplete folder is removed. */
async function replace(target: string, made: string): Promise<void> {
  if (await isComplete(target)) return;
  await rm(target, { recursive: true, force: true });
  await rename(made, target).catch(async (error: unknown) => {
    // Another process has renamed its folder first.
    if (!(await isComplete(target))) throw error;
  });
}

const temporaryName = /^[0-9a-f]{32}\.(?<host>.+)\.(?<pid>\d+)\.[0-9a-f-]{36}$/;
const maxPauseMs = 24 * 3600 * 1000;

/**
 * Removes temporary folders of processes that died: those of processes of this machine that do not exist any more, and those
 * without a write for a day. The current time is that of the folder just created, by the file system's clock.
 */
async function removeLeftovers(folder: string, temporary: string): Promise<void> {
  const { mtimeMs: nowMs } = await stat(temporary);
  for (const name of await readdir(folder)) {
    const { host, pid } = temporaryName.exec(name)?.groups ?? {};
    if (host === undefined || name === basename(temporary)) continue;
    const path = join(folder, name);
    try {
      const { mtimeMs } = await stat(join(path, dataFile)).catch(() => stat(path));
      const isDead = host === hostname() && !isRunning(Number(pid));
      if (isDead || nowMs - mtimeMs > maxPauseMs) await rm(path, { recursive: true, force: true });
    } catch {
      // Removed meanwhile, or no permission.
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function fingerprintOf(config: DecoderConfig, weights: WeightSource, bits: OnnxBits): string {
  const { name: _name, endTokens: _endTokens, ...shape } = config;
  const described = JSON.stringify([version, bits, shape, weights.fingerprint]);
  return createHash("sha256").update(described).digest("hex").slice(0, 32);
}

async function isComplete(folder: string): Promise<boolean> {
  try {
    const contents = JSON.parse(await readFile(join(folder, contentsFile), "utf8")) as Contents;
    const { size } = await stat(join(folder, dataFile));
    return (
      contents.dataBytes === size &&
      contents.modelSha256 === sha256(await readFile(join(folder, modelFile))) &&
      contents.dataCrc32 === crc32Of(join(folder, dataFile))
    );
  } catch {
    return false;
  }
}

async function write(folder: string, config: DecoderConfig, weights: WeightSource, bits: OnnxBits): Promise<void> {
  const graph = decoderGraph(config, weights, dataFile, bits);
  const file = await open(join(folder, dataFile), "w");
  let dataCrc32 = 0;
  try {
    let end = 0;
    for (const { offset, read } of graph.stored) {
      const bytes = read();
      dataCrc32 = crc32(bytes, crc32(new Uint8Array(offset - end), dataCrc32));
      for (let done = 0; done < bytes.length; )
        done += (await file.write(bytes, done, Math.min(bytes.length - done, 1 << 28), offset + done)).bytesWritten;
      end = offset + bytes.length;
    }
  } finally {
    await file.close();
  }
  const model = graph.bytes();
  await writeFile(join(folder, modelFile), model);
  const contents: Contents = { modelSha256: sha256(model), dataBytes: graph.storedBytes, dataCrc32 };
  await writeFile(join(folder, contentsFile), JSON.stringify(contents));
}

/** Synchronous, because promises would double the time of every chunk. */
function crc32Of(path: string): number {
  const file = openSync(path, "r");
  const chunk = new Uint8Array(1 << 20);
  let sum = 0;
  try {
    for (let count = chunk.length; count > 0; sum = crc32(chunk.subarray(0, count), sum))
      count = readSync(file, chunk, 0, chunk.length, null);
  } finally {
    closeSync(file);
  }
  return sum;
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
