import { expect, test } from "vitest";
import type { DecoderConfig } from "../../../engine/model/decoder.ts";
import { scaledFrequencies } from "../../../engine/model/rope.ts";
import { referenceLogits, relativeError } from "../reference.ts";
import { blockTokens, oddConfig, opened, run, wholeTable } from "./decoders.ts";

const tolerance = 1e-4;
const prompt = (length: number, config: DecoderConfig, salt = 3) =>
  Array.from({ length }, (_, i) => (i * i * 7 + 11 * i + salt) % config.vocabulary);

/**
 * A prompt computed alone in one step, by one thread; in two chunks, in a batch, by two threads; and its last token alone:
 * bit-identical logits, close to the float64 reference.
 */
async function checked(config: DecoderConfig, length: number, cuts: readonly number[]) {
  const blocks = Math.ceil(length / blockTokens);
  const blockCount = 2 * blocks + 40;
  const [one, two] = [await opened(config, blockCount, 1), await opened(config, blockCount, 2)];
  const tokens = prompt(length, config);
  const [expected] = await run(one, [{ tokens, from: 0, to: length, table: wholeTable(blocks) }]);
  const [definition] = referenceLogits(config, one.weights, tokens, length - 1);
  expect(relativeError(expected, definition)).toBeLessThan(tolerance);
  const table = wholeTable(blocks, blocks + 40).reverse();
  const other = { tokens: prompt(17, config, 5), from: 0, to: 17, table: wholeTable(5, blocks) };
  const third = { tokens: prompt(3, config, 8), from: 0, to: 3, table: wholeTable(1, blocks + 10) };
  for (const cut of cuts) {
    await run(two, [{ tokens, from: 0, to: cut, table, withoutLogits: true }]);
    const found = await run(two, [third, { tokens, from: cut, to: length, table }, other]);
    expect(found[1], `cut at ${cut}`).toEqual(expected);
    await run(one, [{ tokens, from: 0, to: cut, table, withoutLogits: true }]);
    const [single] = await run(one, [{ tokens, from: cut, to: length, table }]);
    expect(single, `cut at ${cut}, alone`).toEqual(expected);
  }
}

const lengths = [5, 70, 150];
const shapes: [string, DecoderConfig, number[]][] = [
  ["heads of 256, as in Gemma", oddConfig("llama", { headDim: 256, heads: 2 }), lengths],
  ["heads of 160", oddConfig("llama", { headDim: 160, heads: 2 }), lengths],
  ["heads of 80", oddConfig("llama", { headDim: 80, heads: 2, kvHeads: 2 }), lengths],
  ["heads of 96", oddConfig("qwen3", { headDim: 96, heads: 4, kvHeads: 2 }), lengths],
  ["one key head for eight", oddConfig("llama", { heads: 8, kvHeads: 1, headDim: 10 }), lengths],
  ["one layer", oddConfig("qwen2", { layers: 1 }), lengths],
  ["a vocabulary of 50,257", oddConfig("gpt2", { vocabulary: 50_257, hidden: 37, ffn: 149 }), [40]],
  ["an untied head for 50,257", oddConfig("llama", { vocabulary: 50_257, hidden: 37, layers: 1 }), [40]],
];

test.each(shapes)("%s: close to the float64 reference, bit-identical in any batch", async (_name, config, all) => {
  for (const length of all)
    await checked({ ...config, maxPositions: 150 }, length, [1, Math.floor(length / 2), length - 2, length - 1]);
});

test("contexts shorter than, equal to and longer than a window, in one block and in several", async () => {
  for (const window of [1, 2, 4, 5, 8])
    for (const length of [window + 2, 2 * window + 3, 21]) {
      const cuts = [1, window - 1, window, window + 1, length - 2, length - 1];
      await checked(oddConfig("mistral", { window }), length, [
        ...new Set(cuts.filter((cut) => cut > 0 && cut < length)),
      ]);
    }
});

test.each([16, 18, 32, 34, 64, 66])(
  "gathering only the window's context is bit-identical: heads of %i",
  async (headDim) => {
    const config = oddConfig("mistral", { window: 600, headDim, heads: 2, layers: 1 });
    // The first queries that attend to no token before 128, 1,024 and 2,048.
    const firsts = [128, 1024, 2048].map((token) => token + 599);
    const cuts = [
      ...firsts.flatMap((first) => [first - 1, first]),
      1024 + 128 + 599,
      1024 + 256 + 599,
      1024 + 512 + 599,
      2699,
    ];
    await checked(config, 2700, cuts);
  },
);

const llama3 = { lowFrequencyFactor: 1, highFrequencyFactor: 4, originalPositions: 4096 };
const frequencies = scaledFrequencies(12, 500_000, { kind: "llama3", factor: 8, ...llama3 });
const positions = { kind: "rope", inverseFrequencies: frequencies, factor: 1 } as const;

test("a context of 9,000 tokens, with the scaling of Llama 3", async () => {
  await checked(oddConfig("llama", { positions, layers: 1 }), 9000, [4097, 8192, 8999]);
});

test("a context of 9,000 tokens through a window of 300, in two layers", async () => {
  await checked(oddConfig("mistral", { positions, window: 300, heads: 1, hidden: 12, ffn: 20 }), 9000, [4097, 8999]);
});
