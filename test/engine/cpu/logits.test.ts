import fc from "fast-check";
import { expect, test } from "vitest";
import type { DecoderConfig } from "../../../engine/model/decoder.ts";
import { randomConfig } from "../../../engine/model/random.ts";
import { scaledFrequencies } from "../../../engine/model/rope.ts";
import { referenceLogits, relativeError } from "../reference.ts";
import { architectures, oddConfig, opened, run, wholeTable } from "./decoders.ts";

const tolerance = 1e-4;
const rope = (...[headDim, theta, scaling]: Parameters<typeof scaledFrequencies>) => ({
  positions: { kind: "rope" as const, inverseFrequencies: scaledFrequencies(headDim, theta, scaling), factor: 1 },
});
const llama3 = {
  kind: "llama3",
  factor: 8,
  lowFrequencyFactor: 1,
  highFrequencyFactor: 4,
  originalPositions: 16,
} as const;
const yarn = { kind: "yarn", factor: 4, originalPositions: 16, betaFast: 32, betaSlow: 1, truncate: true } as const;

const cases: [string, DecoderConfig][] = [
  ...architectures.map((name): [string, DecoderConfig] => [`${name}, odd sizes`, oddConfig(name)]),
  ...architectures.map((name): [string, DecoderConfig] => [
    name,
    randomConfig(`tiny${name === "llama" ? "" : `-${name}`}`),
  ]),
  ["llama, linear scaling", oddConfig("llama", rope(12, 10_000, { kind: "linear", factor: 4 }))],
  ["llama, scaling of Llama 3", oddConfig("llama", rope(12, 500_000, llama3))],
  ["llama, YaRN", oddConfig("llama", { positions: { ...rope(12, 10_000, yarn).positions, factor: 1.139 } })],
  ["llama, tied", oddConfig("llama", { tiedEmbeddings: true })],
  ["llama, biases", oddConfig("llama", { biases: { qkv: true, output: true, ffn: false } })],
  ["qwen3, a window", oddConfig("qwen3", { window: 5 })],
  ["gpt2, exact gelu", oddConfig("gpt2", { feedForward: "gelu" })],
  ["bloom, 8 heads", oddConfig("bloom", { hidden: 40, heads: 8, kvHeads: 8, headDim: 5 })],
];

test.each(cases)("%s: logits are close to those of the float64 reference", async (_name, config) => {
  const model = await opened(config);
  const tokens = Array.from({ length: 39 }, (_, i) => (i * i * 7 + 3) % config.vocabulary);
  const expected = referenceLogits(model.config, model.weights, tokens);
  const table = wholeTable(10, 20).reverse();
  for (const [from, to] of [
    [0, 30],
    [30, 38],
    [38, 39],
  ]) {
    const [found] = await run(model, [{ tokens, from, to, table }]);
    expect(relativeError(found, expected[to - 1])).toBeLessThan(tolerance);
  }
});

test("random shapes, prompts and batches: logits are close to those of the float64 reference", async () => {
  const shapes = fc.record({
    shape: fc.constantFrom(...architectures),
    layers: fc.integer({ min: 1, max: 3 }),
    kvHeads: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 3 }),
    halfDim: fc.integer({ min: 1, max: 9 }),
    hidden: fc.integer({ min: 2, max: 50 }),
    ffn: fc.integer({ min: 1, max: 70 }),
    window: fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
    prompts: fc.array(fc.array(fc.nat(40), { minLength: 1, maxLength: 24 }), { minLength: 1, maxLength: 4 }),
  });
  await fc.assert(
    fc.asyncProperty(shapes, async ({ shape, group, halfDim, prompts, kvHeads, ...sizes }) => {
      const heads = kvHeads * group;
      const headDim = 2 * halfDim;
      const base = oddConfig(shape, { ...sizes, heads, kvHeads, headDim });
      const config = base.positions.kind === "rope" ? { ...base, ...rope(headDim, 10_000, undefined) } : base;
      const model = await opened(config);
      const parts = prompts.map((tokens, i) => ({
        tokens,
        from: 0,
        to: tokens.length,
        table: wholeTable(6, 6 * i),
      }));
      const found = await run(model, parts);
      prompts.forEach((tokens, i) => {
        const expected = referenceLogits(config, model.weights, tokens);
        expect(relativeError(found[i], expected[tokens.length - 1])).toBeLessThan(tolerance);
      });
    }),
    { numRuns: 40 },
  );
});
