import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { PagedDecoder } from "../../../engine/cpu/paged-decoder.ts";
import type { BatchStep } from "../../../engine/executor.ts";
import type { DecoderConfig } from "../../../engine/model/decoder.ts";
import { randomConfig, randomWeights } from "../../../engine/model/random.ts";
import { plainFrequencies } from "../../../engine/model/rope.ts";
import { modelFiles } from "../../../engine/onnx/model-files.ts";
import type { OnnxBits } from "../../../engine/onnx/quantized.ts";

export const folder = mkdtempSync(join(tmpdir(), "kvlab-onnx-"));
const open: PagedDecoder[] = [];
afterAll(async () => {
  for (const decoder of open) await decoder.close();
  rmSync(folder, { recursive: true });
});

export const blockTokens = 4;

export interface Opened {
  readonly config: DecoderConfig;
  readonly weights: ReturnType<typeof randomWeights>;
  readonly decoder: PagedDecoder;
}

/** A decoder with random weights, in this thread; closed after the tests of the file. */
export async function opened(
  config: DecoderConfig,
  blockCount = 64,
  threads = 1,
  bits: OnnxBits = 32,
): Promise<Opened> {
  const weights = randomWeights(config, 1);
  const model = await modelFiles(config, weights, { folder, bits });
  const decoder = await PagedDecoder.load({ model, config, blockCount, blockTokens, threads });
  open.push(decoder);
  return { config, weights, decoder };
}

/** The architecture with dimensions that are not multiples of the width of vector instructions. */
export function oddConfig(shape: string, changes: Partial<DecoderConfig> = {}): DecoderConfig {
  const config = randomConfig(`tiny${shape === "llama" ? "" : `-${shape}`}`);
  const kvHeads = config.kvHeads === config.heads ? 3 : 1;
  const headDim = changes.headDim ?? (config.qkNorm ? 22 : 12);
  const sizes = { layers: 2, hidden: 36, heads: 3, kvHeads, headDim, ffn: 52, vocabulary: 41, maxPositions: 64 };
  const positions =
    config.positions.kind === "rope"
      ? { kind: "rope" as const, inverseFrequencies: plainFrequencies(headDim, 10_000), factor: 1 }
      : config.positions;
  return { ...config, ...sizes, positions, ...(config.window ? { window: 7 } : {}), ...changes };
}

/** Part of a sequence that a step computes. */
export interface Part {
  readonly tokens: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly table: readonly number[];
  /** The last token's logits are not computed. */
  readonly withoutLogits?: boolean;
}

export function stepOf(parts: readonly Part[]): BatchStep {
  const rows = parts.flatMap(({ from, to, tokens, table }) =>
    Array.from({ length: to - from }, (_, i) => {
      const position = from + i;
      const slot = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
      return { token: tokens[position], position, slot };
    }),
  );
  const maxBlocksPerSequence = Math.max(...parts.map(({ table }) => table.length));
  const ends = [0];
  for (const { from, to } of parts) ends.push(ends[ends.length - 1] + to - from);
  const blockTables = new Int32Array(parts.length * maxBlocksPerSequence).fill(-1);
  parts.forEach(({ table }, i) => {
    blockTables.set(table, i * maxBlocksPerSequence);
  });
  return {
    inputIds: Int32Array.from(rows, ({ token }) => token),
    positions: Int32Array.from(rows, ({ position }) => position),
    slotMapping: Int32Array.from(rows, ({ slot }) => slot),
    cuSeqlensQ: Int32Array.from(ends),
    contextLens: Int32Array.from(parts, ({ to }) => to),
    blockTables,
    maxBlocksPerSequence,
    logitsIndices: Int32Array.from(parts.flatMap(({ withoutLogits }, i) => (withoutLogits ? [] : [ends[i + 1] - 1]))),
  };
}

/** Logits after the last token of each part with logits. */
export async function run({ decoder, config }: Opened, parts: readonly Part[]): Promise<Float32Array[]> {
  const { logits } = await decoder.executeStep(stepOf(parts));
  const { vocabulary } = config;
  return Array.from({ length: logits.length / vocabulary }, (_, i) =>
    logits.slice(i * vocabulary, (i + 1) * vocabulary),
  );
}

export function wholeTable(blocks: number, first = 0): number[] {
  return Array.from({ length: blocks }, (_, i) => first + i);
}

export const architectures = ["llama", "qwen2", "qwen3", "mistral", "gpt2", "bloom"];
