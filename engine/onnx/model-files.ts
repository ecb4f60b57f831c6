import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { InputError } from "../../core/errors.ts";
import type { DecoderConfig, WeightSource } from "../model/decoder.ts";
import { decoderGraph } from "./decoder.ts";
import type { WeightBits } from "./quantized.ts";

/** Counts up when graphs change, so that files of older ones are not used. */
const version = 5;
const modelFile = "model.onnx";
const dataFile = "weights.bin";
/** Written last: its presence says that the others are whole. */
const contentsFile = "contents.json";

interface Contents {
  readonly modelSha256: string;
  readonly dataBytes: number;
}

/** Where models are kept if nobody says otherwise. */
export function modelCacheFolder(): string {
  return join(process.env["XDG_CACHE_HOME"] || tmpdir(), "kvlab", "models");
}

export interface ModelFileOptions {
  /** Where models are kept. */
  readonly folder?: string;
  /** 32 if not given. */
  readonly bits?: WeightBits;
  /** Makes them anew even if they are there. */
  readonly rebuild?: boolean;
}

/**
 * The ONNX model of a decoder, in a folder of its own; made if it is not there or not whole. One tensor at a time is in
 * memory. A folder gets its name when all is in it, so that whoever looks at the same time sees all or nothing.
 *
 * @returns the path of the model
 * @throws InputError if it cannot be written
 */
export async function modelFiles(
  config: DecoderConfig,
  weights: WeightSource,
  { folder = modelCacheFolder(), bits = 32, rebuild = false }: ModelFileOptions = {},
): Promise<string> {
  const target = join(folder, fingerprintOf(config, weights, bits));
  const model = join(target, modelFile);
  if (!rebuild && (await isWhole(target))) return model;
  const making = `${target}.${process.pid}-${randomUUID()}`;
  try {
    await mkdir(making, { recursive: true });
    await write(making, config, weights, bits);
    await rm(target, { recursive: true, force: true });
    await rename(making, target).catch(async (error: unknown) => {
      // Somebody else was faster.
      if (!(await isWhole(target))) throw error;
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new InputError(`${dirname(model)}: the model cannot be written: ${(error as Error).message}`);
  } finally {
    await rm(making, { recursive: true, force: true });
  }
  return model;
}

function fingerprintOf(config: DecoderConfig, weights: WeightSource, bits: WeightBits): string {
  const { name: _name, endTokens: _endTokens, ...shape } = config;
  const described = JSON.stringify([version, bits, shape, weights.fingerprint]);
  return createHash("sha256").update(described).digest("hex").slice(0, 32);
}

async function isWhole(folder: string): Promise<boolean> {
  try {
    const contents = JSON.parse(await readFile(join(folder, contentsFile), "utf8")) as Contents;
    const { size } = await stat(join(folder, dataFile));
    return contents.dataBytes === size && contents.modelSha256 === sha256(await readFile(join(folder, modelFile)));
  } catch {
    return false;
  }
}

async function write(folder: string, config: DecoderConfig, weights: WeightSource, bits: WeightBits): Promise<void> {
  const graph = decoderGraph(config, weights, dataFile, bits);
  const file = await open(join(folder, dataFile), "w");
  try {
    for (const { offset, read } of graph.stored) {
      const bytes = read();
      for (let done = 0; done < bytes.length; )
        done += (await file.write(bytes, done, Math.min(bytes.length - done, 1 << 28), offset + done)).bytesWritten;
    }
    await file.truncate(graph.storedBytes);
  } finally {
    await file.close();
  }
  const model = graph.bytes();
  await writeFile(join(folder, modelFile), model);
  const contents: Contents = { modelSha256: sha256(model), dataBytes: graph.storedBytes };
  await writeFile(join(folder, contentsFile), JSON.stringify(contents));
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
