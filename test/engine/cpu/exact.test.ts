import fc from "fast-check";
import { expect, test } from "vitest";
import {
  architectures,
  blockTokens,
  type Opened,
  oddConfig,
  opened,
  type Part,
  run,
  stepOf,
  wholeTable,
} from "./decoders.ts";

const blockCount = 83;
/** A sequence computed alone in one step, in the first blocks. */
async function alone(model: Opened, tokens: readonly number[]): Promise<Float32Array> {
  const table = wholeTable(Math.ceil(tokens.length / blockTokens));
  const [logits] = await run(model, [{ tokens, from: 0, to: tokens.length, table }]);
  return logits;
}

interface Prompt {
  readonly length: number;
  /** Blocks of an earlier prompt that this one begins with. */
  readonly shared: { readonly prompt: number; readonly blocks: number };
  /** Lengths of its chunks, repeated. */
  readonly chunks: number[];
}

const prompts: fc.Arbitrary<Prompt[]> = fc.array(
  fc.record({
    length: fc.integer({ min: 1, max: 45 }),
    shared: fc.record({ prompt: fc.nat(4), blocks: fc.nat(8) }),
    chunks: fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 4 }),
  }),
  { minLength: 1, maxLength: 5 },
);

/**
 * Sequences with shared blocks, some of which are written and read in the same step. Each step computes the next chunk of all
 * unfinished sequences.
 */
async function inSteps(model: Opened, drawn: readonly Prompt[], order: readonly number[]) {
  const free = [...order];
  const states: { tokens: number[]; table: number[]; found: number; done: number }[] = [];
  for (const { length, shared } of drawn) {
    const own = Array.from({ length }, (_, i) => (7 * i + 3 * i * i + 11 * states.length) % model.config.vocabulary);
    const other = states[shared.prompt];
    // The last token is always computed.
    const blocks = other ? Math.min(shared.blocks, Math.floor((other.tokens.length - 1) / blockTokens)) : 0;
    const tokens = [...(other?.tokens.slice(0, blocks * blockTokens) ?? []), ...own];
    const table = other?.table.slice(0, blocks) ?? [];
    while (table.length * blockTokens < tokens.length) table.push(free.pop()!);
    states.push({ tokens, table, found: blocks * blockTokens, done: blocks * blockTokens });
  }
  const results = new Map<number, Float32Array>();
  for (let step = 0; results.size < states.length; step++) {
    const parts: (Part & { sequence: number })[] = [];
    // Tokens that the earlier sequences have computed at the end of this step.
    const done = states.map(({ done }) => done);
    states.forEach(({ tokens, table, found }, i) => {
      const { shared, chunks } = drawn[i];
      if (done[i] >= tokens.length || done[shared.prompt] < found) return;
      const to = Math.min(tokens.length, done[i] + chunks[step % chunks.length]);
      parts.push({ sequence: i, tokens, from: done[i], to, table, withoutLogits: to < tokens.length });
      done[i] = to;
    });
    const found = await run(model, parts);
    const withLogits = parts.filter(({ withoutLogits }) => !withoutLogits);
    withLogits.forEach(({ sequence }, i) => {
      results.set(sequence, found[i]);
    });
    states.forEach((state, i) => {
      state.done = done[i];
    });
  }
  return states.map(({ tokens }, i) => ({ tokens, logits: results.get(i)! }));
}

/** Blocks in the order of their multiples: their number is a prime. */
const orders = fc
  .integer({ min: 1, max: blockCount - 1 })
  .map((stride) => wholeTable(blockCount).map((block) => (block * stride) % blockCount));

test.each(architectures)("%s: logits are bit-identical with and without hits", async (name) => {
  const config = oddConfig(name, { maxPositions: 128 });
  const [one, two] = [await opened(config, blockCount, 1), await opened(config, blockCount, 2)];
  await fc.assert(
    fc.asyncProperty(prompts, orders, async (drawn, order) => {
      const found = await inSteps(two, drawn, order);
      for (const { tokens, logits } of found) expect(logits).toEqual(await alone(one, tokens));
    }),
    { numRuns: 25 },
  );
});

test("long contexts: results are bit-identical for any chunks, batch and number of threads", async () => {
  const config = oddConfig("llama", { maxPositions: 1024, headDim: 12 });
  const [one, two] = [await opened(config, 600, 1), await opened(config, 600, 2)];
  const tokens = Array.from({ length: 700 }, (_, i) => (i * i * 5 + 1) % config.vocabulary);
  const table = wholeTable(175, 100).reverse();
  const [expected] = await run(one, [{ tokens, from: 0, to: 700, table: wholeTable(175) }]);
  for (const model of [one, two])
    for (const cut of [1, 16, 63, 64, 257, 512, 698, 699]) {
      await run(model, [{ tokens, from: 0, to: cut, table, withoutLogits: true }]);
      const others = [3, 50, 301].map((length, i) => ({
        tokens: tokens.slice(0, length),
        from: 0,
        to: length,
        table: wholeTable(76, 300 + 80 * i),
      }));
      const found = await run(model, [...others, { tokens, from: cut, to: 700, table }]);
      expect(found[3]).toEqual(expected);
    }
});

test("a batch may have more rows than any of its sequences has positions", async () => {
  const model = await opened(oddConfig("llama"), 600);
  const tokens = Array.from({ length: 30 }, (_, i) => (i * 7) % 41);
  const [alone] = await run(model, [{ tokens, from: 0, to: 30, table: wholeTable(8) }]);
  // Tables of rotary embeddings begin with 512 positions.
  const many = Array.from({ length: 40 }, (_, i) => ({ tokens, from: 0, to: 30, table: wholeTable(8, 8 * i) }));
  for (const logits of await run(model, many)) expect(logits).toEqual(alone);
});

const config = oddConfig("llama");
const tokens = Array.from({ length: 22 }, (_, i) => (i * 11 + 5) % config.vocabulary);
const others = tokens.map((token) => (token + 1) % config.vocabulary);
const table = wholeTable(6, 10);
const cached = { tokens, from: 20, to: 22, table };

test("a wrong block, a stale block and a missing copy change the logits", async () => {
  const model = await opened(config);
  const expected = await alone(model, tokens);
  const fill = () => run(model, [{ tokens, from: 0, to: 22, table }]);

  await fill();
  expect((await run(model, [cached]))[0]).toEqual(expected);

  // One wrong block in the table.
  const wrong = table.with(2, table[1]);
  expect((await run(model, [{ ...cached, table: wrong }]))[0]).not.toEqual(expected);

  // Another sequence has overwritten one of the blocks.
  await fill();
  await run(model, [{ tokens: others, from: 0, to: 4, table: [table[3]] }]);
  expect((await run(model, [cached]))[0]).not.toEqual(expected);

  // The last block should be a copy of a shared block.
  await fill();
  const own = table.with(5, 40);
  expect((await run(model, [{ ...cached, from: 21, table: own }]))[0]).not.toEqual(expected);
  model.decoder.copyBlocks([{ source: table[5], target: 40 }]);
  expect((await run(model, [{ ...cached, from: 21, table: own }]))[0]).toEqual(expected);
});

test("earlier contents of blocks have no effect", async () => {
  const model = await opened(config);
  const expected = await alone(model, tokens);
  await run(model, [{ tokens: others, from: 0, to: 22, table }]);
  expect((await run(model, [{ tokens, from: 0, to: 22, table }]))[0]).toEqual(expected);
});

test("blocks that were read can be written to other blocks", async () => {
  const model = await opened(config);
  const expected = await alone(model, tokens);
  await run(model, [{ tokens, from: 0, to: 22, table }]);
  const moved = wholeTable(6, 50);
  table.forEach((block, i) => {
    model.decoder.writeBlock(moved[i], model.decoder.readBlock(block));
  });
  await run(model, [{ tokens: others, from: 0, to: 22, table }]);
  expect((await run(model, [{ ...cached, table: moved }]))[0]).toEqual(expected);
});

test("copies are made in order: a block may be overwritten after it was copied", async () => {
  const { decoder } = await opened(config);
  const block = (value: number) => {
    const { keys, values } = decoder.readBlock(0);
    return { keys: keys.fill(value), values: values.fill(-value) };
  };
  decoder.writeBlock(1, block(1));
  decoder.writeBlock(2, block(2));
  decoder.copyBlocks([
    { source: 1, target: 3 },
    { source: 2, target: 1 },
    { source: 3, target: 2 },
  ]);
  expect([1, 2, 3].map((i) => decoder.readBlock(i))).toEqual([block(2), block(1), block(1)]);
});

test("tokens without a slot are attended to in their step and not stored", async () => {
  const model = await opened(config);
  const expected = await alone(model, tokens);
  const step = { tokens, from: 0, to: 22, table };
  const before = model.decoder.readBlock(table[5]);
  const batch = stepOf([step]);
  const { logits } = await model.decoder.executeStep({ ...batch, slotMapping: batch.slotMapping.fill(-1, 20) });
  expect(logits).toEqual(expected);
  expect(model.decoder.readBlock(table[5])).toEqual(before);
});
