import { expect, test } from "vitest";
import { Request, Sequence } from "../../core/cache/request.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { StepPlan } from "../../core/replica/step.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { batchOf } from "../../engine/batch.ts";
import { indexRegistry } from "../../policies/registry.ts";

/** Sequences with these prompt lengths and block tables; token `at` of sequence i is 100 i + at. */
function sequencesOf(prompts: readonly { readonly tokens: number; readonly table: readonly number[] }[]): Sequence[] {
  const builder = new TraceBuilder(1);
  for (const { tokens } of prompts)
    builder.add({ arrivalNs: 0, inputTokens: tokens, outputTokens: 9, keys: new Array<number>(tokens).fill(0) });
  const trace = builder.take();
  const columns = blockKeysFor({ index: indexRegistry.get("hash-table"), rules: {}, blockTokens: 4 }, 1).of(trace);
  return prompts.map(({ table }, row) => {
    const sequence = new Sequence(new Request(row, trace, row, columns));
    // Elements of the table after the sequence's blocks are undefined.
    sequence.table.fill(77);
    sequence.table.set(table);
    sequence.blocks.allocated(table.length);
    return sequence;
  });
}

const write = ({ request }: Sequence, from: number, to: number, into: Int32Array, at: number) => {
  for (let i = from; i < to; i++) into[at + i - from] = 100 * request.id + i;
};

test("two prompt chunks and a decode, packed", () => {
  const [a, b, c] = sequencesOf([
    { tokens: 10, table: [5, 2, 9] },
    { tokens: 7, table: [1, 8] },
    { tokens: 6, table: [3, 0, 4] },
  ]);
  const plan = new StepPlan([]);
  plan.add(a, 4, 3, true, 0); // a chunk that is not the prompt's last one
  plan.add(b, 0, 7, true, 1); // a whole prompt
  plan.add(c, 8, 1, false, 1); // the third output token, which begins a block
  const { step, items, sampled } = batchOf(plan, 4, write);
  expect(step).toEqual({
    inputIds: Int32Array.of(4, 5, 6, 100, 101, 102, 103, 104, 105, 106, 208),
    positions: Int32Array.of(4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 8),
    // Block 2 from its beginning; all of block 1, three slots of block 8; the first slot of block 4.
    slotMapping: Int32Array.of(8, 9, 10, 4, 5, 6, 7, 32, 33, 34, 16),
    cuSeqlensQ: Int32Array.of(0, 3, 10, 11),
    contextLens: Int32Array.of(7, 7, 9),
    maxBlocksPerSequence: 3,
    blockTables: Int32Array.of(5, 2, 0, 1, 8, 0, 3, 0, 4),
    logitsIndices: Int32Array.of(9, 10),
  });
  expect(items.map(({ sequence }) => sequence)).toEqual([a, b, c]);
  expect(sampled.map(({ sequence }) => sequence)).toEqual([b, c]);
});

test("a sequence with stored logits is not in the batch, and earlier longer steps have no effect", () => {
  const [a, b] = sequencesOf([
    { tokens: 8, table: [0, 1] },
    { tokens: 3, table: [6] },
  ]);
  const plan = new StepPlan([]);
  plan.add(b, 0, 3, true, 1);
  plan.add(a, 0, 8, true, 1);
  plan.add(b, 3, 1, false, 1);
  plan.clear();
  plan.add(a, 8, 0, true, 1);
  plan.add(b, 2, 1, true, 1);
  const { step, items, sampled } = batchOf(plan, 4, write);
  expect(items.map(({ sequence }) => sequence)).toEqual([b]);
  expect(sampled).toEqual(items);
  expect([...step.inputIds, ...step.slotMapping, ...step.contextLens, ...step.blockTables]).toEqual([102, 26, 3, 6]);
  expect([...step.cuSeqlensQ, ...step.logitsIndices]).toEqual([0, 1, 0]);
});

test("a step in which no sequence computes is empty", () => {
  const [a] = sequencesOf([{ tokens: 8, table: [0, 1] }]);
  const plan = new StepPlan([]);
  plan.add(a, 8, 0, true, 1);
  const { step, items } = batchOf(plan, 4, write);
  expect(items).toEqual([]);
  expect([...step.cuSeqlensQ]).toEqual([0]);
  expect(step.inputIds).toHaveLength(0);
});

test("a token without a block is a bug", () => {
  const [a] = sequencesOf([{ tokens: 9, table: [0, 1] }]);
  const plan = new StepPlan([]);
  plan.add(a, 0, 9, true, 1);
  expect(() => batchOf(plan, 4, write)).toThrow("tokens up to 9 in 2 blocks of 4");
});
