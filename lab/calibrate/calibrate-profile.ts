import { mkdir, readdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { unfinished } from "../../core/unfinished.ts";
import { type BackendName, defaultBackend } from "../../engine/backends.ts";
import { now } from "../../engine/clock.ts";
import type { DecoderConfig } from "../../engine/model/decoder.ts";
import { loadModel } from "../../engine/model/load.ts";
import { hardwareNameOf } from "../../sim/cost/hardware.ts";
import { counting } from "../control.ts";
import { fillWithNoise } from "../fuzz/engines.ts";
import { checkWritable, removeEmpty } from "../output/run-directory.ts";
import { version } from "../package.ts";
import { configFile } from "../profiles/catalogue.ts";
import { defaultModel, modelOptionsOf } from "../run/real-engine.ts";
import { backendOf, deviceText } from "../run/target.ts";
import type { CalibrateOptions } from "./calibrate.ts";
import { quantiles } from "./calibration-report.ts";
import { blockTokens } from "./profile/batch-steps.ts";
import { gridUpTo, type ProfileGrid, profileBlocks } from "./profile/grid.ts";
import { type MeasuredProfile, measurementCount, measureProfile } from "./profile/measured-steps.ts";
import { writeProfile } from "./profile/profile-files.ts";

/** The engine to measure, and the folder of the profile. */
export interface CalibrateProfileOptions
  extends Pick<
    CalibrateOptions,
    "backend" | "model" | "bits" | "threads" | "maxPrompt" | "maxBatch" | "rounds" | "seed" | "progress" | "signal"
  > {
  /** A folder that does not exist, or an empty one. */
  readonly profile: string;
}

/** The document that `kvlab calibrate --profile --json` prints: schema calibrate-profile/1. */
export type ProfileDocument = Awaited<ReturnType<typeof calibrateProfile>>;

/**
 * Measures an engine's steps on a grid of shapes, and writes their times as an operator profile, for
 * `--target sim --cost profile:FOLDER`. The folder appears when it is complete.
 *
 * @throws InputError, ExecutorError, Interrupted
 */
export async function calibrateProfile(options: CalibrateProfileOptions) {
  const { profile: folder, backend: name = defaultBackend.name, model = defaultModel, signal } = options;
  const { maxPrompt = 1024, maxBatch = 16, rounds = 5, seed = 1 } = options;
  await checkFree(folder);
  const backend = backendOf(name satisfies BackendName);
  const { bits, threads } = modelOptionsOf(backend, options);
  const loaded = loadModel(model);
  try {
    const { config } = loaded;
    checkModel(model, config, maxPrompt);
    const hardware = hardwareNameOf(backend.deviceName());
    const grid = gridUpTo(maxPrompt, maxBatch);
    const { vocabulary, layers } = config;
    const measuring = { grid, vocabulary, layers, rounds, seed, signal };
    return await whenComplete(folder, async (temporary) => {
      const blockCount = profileBlocks(grid);
      const executor = await backend.open({
        model: loaded,
        blockCount,
        blockTokens,
        bits,
        ...(threads && { threads }),
      });
      let measured: MeasuredProfile;
      try {
        await fillWithNoise(executor);
        const advance = counting(options, "measuring", measurementCount(measuring));
        measured = await measureProfile(executor, { ...measuring, advance });
      } finally {
        await executor.close();
      }
      const { tables, skew } = measured;
      const others = {
        ...{ bits, ...(threads && { threads }), rounds, seed },
        skew_fit: { per_tp: { 1: { alpha_default: Number(skew.toPrecision(3)) } } },
        cuda_graphs: false,
      };
      const kvNumberBytes = backend.memory.tokenBytes(config) / (2 * layers * config.kvHeads * config.headDim);
      await writeFile(join(temporary, configFile), sizesOf(config, kvNumberBytes));
      const rows = writeProfile(temporary, { hardware, model, profiledAt: now(), others }, grid, tables);
      return {
        ...{ schema: "calibrate-profile/1" as const, kvlab: version, folder, gpu: hardware, model },
        about: `${model} on ${deviceText(backend, threads)}, ${bits} bits, blocks of ${blockTokens}`,
        ...{ rounds, seed, rows, grid: sizesOfGrid(grid), skew, spread: quantiles(measured.spread) },
      };
    });
  } finally {
    loaded.close();
  }
}

const sizesOfGrid = ({ tokens, sequences }: ProfileGrid) => ({
  maxTokens: Math.max(...tokens),
  maxSequences: Math.max(...sequences),
});

/** @throws InputError if the folder has files, or cannot be written */
async function checkFree(folder: string): Promise<void> {
  const files = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new InputError(`${folder}: cannot be written (${error.code})`);
  });
  if (files.length > 0) throw new InputError(`${folder}: has files in it; expected a new folder for the profile`);
  await checkWritable(folder, folder);
}

/** @throws InputError if the prompts exceed the model's positions, or a profile cannot describe the model */
function checkModel(model: string, { window, maxPositions }: DecoderConfig, maxPrompt: number): void {
  if (window !== undefined)
    throw new InputError(`${model} has a sliding window of ${window} tokens, which operator profiles do not have`);
  if (maxPrompt > maxPositions)
    throw new InputError(`--max-prompt is ${maxPrompt}, and ${model} has ${maxPositions} positions`);
}

/**
 * The model's sizes as the simulator reads them. Architectures that differ in norms, biases and positions only, all of which are in
 * the measured times, are those of Llama.
 */
function sizesOf(config: DecoderConfig, numberBytes: number): string {
  const fields = {
    ...{ model_type: "llama", num_hidden_layers: config.layers, hidden_size: config.hidden },
    ...{ intermediate_size: config.ffn, vocab_size: config.vocabulary, head_dim: config.headDim },
    ...{ num_attention_heads: config.heads, num_key_value_heads: config.kvHeads },
    ...{ tie_word_embeddings: config.tiedEmbeddings, torch_dtype: numberBytes === 4 ? "float32" : "bfloat16" },
  };
  return `${JSON.stringify(fields, undefined, 2)}\n`;
}

/** Calls `write` with a temporary folder, which is renamed if the call succeeds and removed otherwise. */
async function whenComplete<Result>(folder: string, write: (temporary: string) => Promise<Result>): Promise<Result> {
  const target = resolve(folder);
  const temporary = `${target}.${process.pid}.tmp`;
  unfinished.add(temporary);
  let made: string | undefined;
  let complete = false;
  try {
    made = makeFolder(dirname(target), folder);
    await mkdir(temporary);
    const result = await write(temporary);
    await rename(temporary, target);
    complete = true;
    return result;
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException;
    throw syscall === undefined ? error : new InputError(`${folder}: cannot be written (${code})`);
  } finally {
    await rm(temporary, { recursive: true, force: true });
    unfinished.delete(temporary);
    if (!complete && made !== undefined) await removeEmpty(dirname(target), made);
  }
}
