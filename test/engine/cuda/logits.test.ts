import { describe, expect, test } from "vitest";
import type { DecoderConfig } from "../../../engine/model/decoder.ts";
import { plainFrequencies, scaledFrequencies } from "../../../engine/model/rope.ts";
import { referenceLogits, relativeError } from "../reference.ts";
import {
  architectures,
  canEmulate,
  opened,
  roundedWeights,
  run,
  tinyConfig,
  useEmulator,
  wholeTable,
} from "./decoders.ts";

useEmulator();

/**
 * bfloat16 has 8 significant bits. The device rounds the weights and, between kernels, the inputs and outputs of every product, in
 * the same proportion: each is as many roundings as the weights. The errors of three independent causes of equal size, one of them
 * the weights, add up to √3 of one of them, and the largest of several hundred errors is less than twice its mean. So the tolerance
 * is three times the largest error that rounding of the weights alone causes in the float64 reference, for the same model and
 * tokens.
 */
const roundings = 3;

const llama3 = {
  kind: "llama3",
  factor: 8,
  lowFrequencyFactor: 1,
  highFrequencyFactor: 4,
  originalPositions: 16,
} as const;
const yarn = { kind: "yarn", factor: 4, originalPositions: 16, betaFast: 32, betaSlow: 1, truncate: true } as const;
const rope = (...[headDim, theta, scaling]: Parameters<typeof scaledFrequencies>) => ({
  positions: { kind: "rope" as const, inverseFrequencies: scaledFrequencies(headDim, theta, scaling), factor: 1 },
});
const wide = (headDim: number, heads: number, kvHeads: number): Partial<DecoderConfig> => ({
  ...{ heads, kvHeads, headDim, layers: 1 },
  positions: { kind: "rope", inverseFrequencies: plainFrequencies(headDim, 10_000), factor: 1 },
});

const cases: [string, DecoderConfig][] = [
  ...architectures.map((name): [string, DecoderConfig] => [name, tinyConfig(name)]),
  ["llama, sizes that are not multiples of tiles", { ...tinyConfig("llama"), hidden: 72, ffn: 104, vocabulary: 259 }],
  ["llama, linear scaling", { ...tinyConfig("llama"), ...rope(16, 10_000, { kind: "linear", factor: 4 }) }],
  ["llama, scaling of Llama 3", { ...tinyConfig("llama"), ...rope(16, 500_000, llama3) }],
  ["llama, YaRN", { ...tinyConfig("llama"), positions: { ...rope(16, 10_000, yarn).positions, factor: 1.139 } }],
  ["llama, tied", { ...tinyConfig("llama"), tiedEmbeddings: true }],
  ["llama, biases", { ...tinyConfig("llama"), biases: { qkv: true, output: true, ffn: false } }],
  ["llama, heads of 48, groups of 3", { ...tinyConfig("llama"), ...wide(48, 6, 2) }],
  ["llama, heads of 128, a group of 7", { ...tinyConfig("llama"), ...wide(128, 7, 1) }],
  ["llama, heads of 256, a group of 12", { ...tinyConfig("llama"), ...wide(256, 12, 1) }],
  ["qwen3, a window", { ...tinyConfig("qwen3"), window: 5 }],
  ["gpt2, exact gelu", { ...tinyConfig("gpt2"), feedForward: "gelu" }],
  ["bloom, 8 heads", { ...tinyConfig("bloom"), hidden: 128, heads: 8, kvHeads: 8 }],
];

describe.runIf(canEmulate)("the CUDA engine", () => {
  test.each(cases)("%s: logits are within bf16 tolerance of the float64 reference", (_name, config) => {
    const model = opened(config);
    const tokens = Array.from({ length: 39 }, (_, i) => (i * i * 7 + 3) % config.vocabulary);
    const exact = referenceLogits(config, model.weights, tokens, 29);
    const rounded = referenceLogits(config, roundedWeights(model.weights), tokens, 29);
    const tolerance = roundings * Math.max(...exact.map((logits, i) => relativeError(rounded[i], logits)));
    expect(tolerance).toBeLessThan(0.15);
    const table = wholeTable(10, 20).reverse();
    // A prompt, a chunk after a cached prefix, and a decode.
    for (const [from, to] of [
      [0, 30],
      [30, 38],
      [38, 39],
    ]) {
      const [found] = run(model, [{ tokens, from, to, table }]);
      expect(relativeError(found, rounded[to - 30])).toBeLessThan(tolerance);
    }
  });
});
