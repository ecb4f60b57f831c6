import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { EngineBackend } from "../../engine/backend.ts";
import { defaultBackend } from "../../engine/backends.ts";
import type { Executor } from "../../engine/executor.ts";
import { loadModel } from "../../engine/model/load.ts";
import { blocksFor, blockTokens, promptOf, type Rows, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";

/** A small model of every architecture: together they have every position scheme, GQA, QK-norm, biases and a sliding window. */
export const modelNames = ["tiny", "tiny-qwen2", "tiny-qwen3", "tiny-mistral", "tiny-gpt2", "tiny-bloom"].map(
  (name) => `random:${name}`,
);

/** Prompt lengths: less than a block, several blocks and a partial one, more than a tile of 64 queries and than Mistral's window. */
const promptLengths = [5, 37, 90];
const decodeSteps = 4;
const blocksPerSequence = blocksFor(Math.max(...promptLengths) + decodeSteps);

/** Opens the model of a check. */
export async function openSmall(backend: EngineBackend, name: string, blockCount = 64): Promise<Executor> {
  return await backend.open({ model: loadModel(name), blockCount, blockTokens });
}

/**
 * The logits of three sequences: a prefill of all of them in one step, then four decode steps with given tokens.
 *
 * @returns [5 steps, 3 sequences, vocabulary]
 */
export async function logitsOf(executor: Executor, vocabulary: number): Promise<Float32Array> {
  const sequences = promptLengths.map((length, i): Rows => {
    const tokens = promptOf(length + decodeSteps, vocabulary, i);
    return { tokens, from: 0, to: length, block: 1 + i * blocksPerSequence };
  });
  const width = sequences.length * vocabulary;
  const all = new Float32Array((1 + decodeSteps) * width);
  for (let step = 0; step <= decodeSteps; step++) {
    const rows = sequences.map((sequence) =>
      step === 0 ? sequence : { ...sequence, from: sequence.to + step - 1, to: sequence.to + step },
    );
    all.set((await executor.executeStep(stepOf(rows))).logits, step * width);
  }
  return all;
}

const fileOf = (folder: string, model: string) => join(folder, `${model.replace(":", "-")}.f32`);

/** Writes the logits that the default backend computes, a file for each model. */
export async function writeExpected(folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const name of modelNames) {
    const logits = await reference(name);
    writeFileSync(fileOf(folder, name), new Uint8Array(logits.buffer));
  }
}

/** The expected logits of a model: from the folder if it has them, else computed by the default backend. */
export async function expectedLogits(name: string, folder: string | undefined): Promise<Float32Array> {
  const file = folder === undefined ? undefined : fileOf(folder, name);
  if (file === undefined || !existsSync(file)) return await reference(name);
  return new Float32Array(new Uint8Array(readFileSync(file)).buffer);
}

async function reference(name: string): Promise<Float32Array> {
  const executor = await openSmall(defaultBackend, name);
  try {
    return await logitsOf(executor, loadModel(name).config.vocabulary);
  } finally {
    await executor.close();
  }
}

/** Comparison of rows of logits with expected ones. */
export interface RowErrors {
  readonly rows: number;
  /** The largest error of a row: its largest difference, divided by its largest expected magnitude. */
  readonly largest: number;
  readonly mean: number;
  /** Rows whose largest logit has the expected index. */
  readonly sameToken: number;
}

export function rowErrors(found: Float32Array, expected: Float32Array, vocabulary: number): RowErrors {
  if (found.length !== expected.length) throw new Error(`${found.length} logits, expected ${expected.length}`);
  const rows = expected.length / vocabulary;
  let [largest, sum, sameToken] = [0, 0, 0];
  for (let row = 0; row < rows; row++) {
    let [difference, magnitude, ours, theirs] = [0, 0, row * vocabulary, row * vocabulary];
    for (let i = row * vocabulary; i < (row + 1) * vocabulary; i++) {
      difference = Math.max(difference, Math.abs(found[i] - expected[i]));
      magnitude = Math.max(magnitude, Math.abs(expected[i]));
      if (found[i] > found[ours]) ours = i;
      if (expected[i] > expected[theirs]) theirs = i;
    }
    // NaN is larger than any tolerance.
    const error = difference / magnitude;
    largest = Number.isNaN(error) || Number.isNaN(largest) ? Number.NaN : Math.max(largest, error);
    sum += error;
    if (ours === theirs) sameToken++;
  }
  return { rows, largest, mean: sum / rows, sameToken };
}
