import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { argmax } from "../../../engine/sampling.ts";
import { relativeError } from "../reference.ts";
import {
  architectures,
  blockTokens,
  canEmulate,
  type Opened,
  opened,
  type Part,
  run,
  stepOf,
  tinyConfig,
  useEmulator,
  wholeTable,
} from "./decoders.ts";

useEmulator();

/**
 * Of the largest logit. The kernels of prefill and decode sum in another order, and prefill rounds the weights of attention to bf16,
 * so that outputs of all layers round differently: about half of the roundings of logits.test.ts, whose tolerance is below 0.1.
 */
const decodeTolerance = 0.05;

const tokensOf = (length: number, vocabulary: number) => Array.from({ length }, (_, i) => (i * i * 7 + 3) % vocabulary);

/** Logits of a sequence that is computed alone in one step, in the first blocks. */
function alone(model: Opened, tokens: readonly number[]): Float32Array {
  const table = wholeTable(Math.ceil(tokens.length / blockTokens));
  return run(model, [{ tokens, from: 0, to: tokens.length, table }])[0];
}

/** The same with chunks that end at `cuts`, in the blocks of `table`. */
function inChunks(model: Opened, tokens: readonly number[], cuts: readonly number[], table: readonly number[]) {
  const ends = [...cuts, tokens.length];
  return ends.map((to, i) => run(model, [{ tokens, from: ends[i - 1] ?? 0, to, table }])[0]).at(-1)!;
}

describe.runIf(canEmulate)("hits and misses", () => {
  test.each(architectures)(
    "%s: a hit has the logits of a miss, bit for bit, for any chunks of several tokens",
    (name) => {
      const model = opened(tinyConfig(name), { blockCount: 150 });
      const tokens = tokensOf(139, model.config.vocabulary);
      const expected = alone(model, tokens);
      const table = wholeTable(35, 60).reverse();
      for (const cuts of [[2], [64], [70, 137], [16, 18, 100]])
        expect(inChunks(model, tokens, cuts, table)).toEqual(expected);
    },
  );

  test.each(architectures)("%s: a decode has the logits of a prefill within tolerance, and its token", (name) => {
    const model = opened(tinyConfig(name), { blockCount: 150 });
    const tokens = tokensOf(139, model.config.vocabulary);
    const expected = alone(model, tokens);
    const found = inChunks(model, tokens, [138], wholeTable(35, 60));
    expect(relativeError(found, expected)).toBeLessThan(decodeTolerance);
    expect(argmax(found)).toBe(argmax(expected));
  });

  test("ragged batches of prefills and decodes, with blocks that an earlier sequence of the step writes", () => {
    const model = opened(tinyConfig("llama"), { blockCount: 150 });
    const { vocabulary } = model.config;
    const lengths = fc.array(fc.integer({ min: 2, max: 90 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(lengths, fc.nat(21), fc.integer({ min: 1, max: 148 }), (drawn, sharedBlocks, stride) => {
        const order = wholeTable(149).map((block) => (block * stride) % 149);
        const parts: Part[] = [];
        drawn.forEach((length, i) => {
          const first = parts[0];
          // The sequence is written by the first one of the same step up to `from`.
          const shared = first ? Math.min(sharedBlocks, Math.floor(first.to / blockTokens)) : 0;
          const from = shared * blockTokens;
          const own = Array.from({ length }, (_, at) => (at * 31 + 5 * i + 1) % vocabulary);
          const tokens = [...(first?.tokens.slice(0, from) ?? []), ...own];
          const blocks = Math.ceil(tokens.length / blockTokens) - shared;
          parts.push({
            tokens,
            from,
            to: tokens.length,
            table: [...(first?.table.slice(0, shared) ?? []), ...order.splice(0, blocks)],
          });
        });
        const found = run(model, parts);
        for (const [i, { tokens }] of parts.entries()) expect(found[i]).toEqual(alone(model, tokens));
      }),
      { numRuns: 15 },
    );
  });

  test("earlier contents of blocks and unused entries of block tables have no effect", () => {
    const model = opened(tinyConfig("mistral"));
    const tokens = tokensOf(30, model.config.vocabulary);
    const expected = alone(model, tokens);
    run(model, [{ tokens: tokens.map((token) => token + 1), from: 0, to: 30, table: wholeTable(8, 20) }]);
    expect(run(model, [{ tokens, from: 0, to: 30, table: [...wholeTable(8, 20), -1, -1] }])[0]).toEqual(expected);
  });

  test("a step larger than all before it, and one without logits", () => {
    const model = opened(tinyConfig("llama"), { blockCount: 300 });
    const tokens = tokensOf(1000, model.config.vocabulary);
    const table = wholeTable(250);
    expect(run(model, [{ tokens, from: 0, to: 998, table, withoutLogits: true }])).toEqual([]);
    const [found] = run(model, [{ tokens, from: 998, to: 1000, table }]);
    expect(found).toEqual(alone(model, tokens));
  });
});

const config = tinyConfig("llama");
const tokens = tokensOf(22, config.vocabulary);
const table = wholeTable(6, 10);
const cached = { tokens, from: 18, to: 22, table };

describe.runIf(canEmulate)("blocks", () => {
  test("a wrong block, a stale block and a missing copy change the logits", () => {
    const model = opened(config);
    const expected = alone(model, tokens);
    const fill = () => run(model, [{ tokens, from: 0, to: 22, table }]);
    fill();
    expect(run(model, [cached])[0]).toEqual(expected);
    // One wrong block in the table.
    expect(run(model, [{ ...cached, table: table.with(2, table[1]) }])[0]).not.toEqual(expected);
    // Another sequence has overwritten one of the blocks.
    fill();
    run(model, [{ tokens: tokens.slice(1), from: 0, to: 4, table: [table[3]] }]);
    expect(run(model, [cached])[0]).not.toEqual(expected);
    // The block that is written should be a copy of a shared one.
    fill();
    const own = table.with(4, 40);
    expect(run(model, [{ ...cached, table: own }])[0]).not.toEqual(expected);
    model.decoder.copyBlocks([{ source: table[4], target: 40 }]);
    expect(run(model, [{ ...cached, table: own }])[0]).toEqual(expected);
  });

  test("blocks that were swapped out can be swapped in to other blocks", () => {
    const model = opened(config);
    const expected = alone(model, tokens);
    run(model, [{ tokens, from: 0, to: 22, table }]);
    const swapped = model.decoder.readBlocks(table);
    expect(swapped[0].keys).toHaveLength(config.layers * blockTokens * config.kvHeads * config.headDim);
    run(model, [{ tokens: tokens.slice(1), from: 0, to: 20, table }]);
    const moved = wholeTable(6, 50);
    model.decoder.writeBlocks(moved, swapped);
    expect(model.decoder.readBlocks(moved)).toEqual(swapped);
    expect(run(model, [{ ...cached, table: moved }])[0]).toEqual(expected);
  });

  test("chains of copies are made in order", () => {
    const { decoder } = opened(config);
    const block = (value: number) => {
      const [{ keys, values }] = decoder.readBlocks([0]);
      return { keys: keys.fill(value), values: values.fill(value + 1) };
    };
    decoder.writeBlocks([1, 2], [block(1), block(2)]);
    const pairs = [
      [1, 3],
      [2, 1],
      [3, 2],
      [2, 4],
    ].map(([source, target]) => ({ source, target }));
    decoder.copyBlocks(pairs);
    expect(decoder.readBlocks([1, 2, 3, 4])).toEqual([block(2), block(1), block(1), block(1)]);
  });

  test("keys and values of a token are written to its slot only", () => {
    const { decoder } = opened(config);
    const [before] = decoder.readBlocks([7]);
    expect(before.keys.every((bits) => bits === 0)).toBe(true);
    decoder.executeStep(stepOf([{ tokens: [3, 5], from: 0, to: 2, table: [7] }]));
    const [after] = decoder.readBlocks([7]);
    const width = config.kvHeads * config.headDim;
    for (const { keys } of [after])
      for (let slot = 0; slot < config.layers * blockTokens; slot++) {
        const own = keys.subarray(slot * width, (slot + 1) * width);
        expect(own.some((bits) => bits !== 0)).toBe(slot % blockTokens < 2);
      }
  });
});
