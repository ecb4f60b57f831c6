import fc from "fast-check";
import { expect, test } from "vitest";
import type { StepPlan } from "../../../core/replica/step.ts";
import { noLoad } from "../../../core/serving/step-load.ts";
import { callRules } from "../../../engine/cpu/call-rules.ts";
import { CallPlanner, firstGathered, splitPrompts } from "../../../engine/cpu/calls.ts";
import { CpuStepLoads } from "../../../engine/cpu/step-loads.ts";
import { randomConfig } from "../../../engine/model/random.ts";
import { blockTokens, stepOf, wholeTable } from "./decoders.ts";

const config = randomConfig("anchors");
const zeros = new Array<number>(8192).fill(0);
/** Sequences that compute [from, to), each with separate blocks. */
const stepWith = (ranges: readonly (readonly [from: number, to: number])[]) => {
  const most = Math.max(...ranges.map(([, to]) => Math.ceil(to / blockTokens)));
  return stepOf(
    ranges.map(([from, to], i) => ({
      tokens: zeros,
      from,
      to,
      table: wholeTable(Math.ceil(to / blockTokens), i * most),
    })),
  );
};
const planner = new CallPlanner(config, 100_000, blockTokens);

test("decodes are one call, a prompt in the same step is another one", () => {
  expect(planner.plan(stepWith([1, 2, 3].map(() => [512, 513])))).toEqual([[0, 1, 2]]);
  const decodes = Array.from({ length: 7 }, () => [512, 513] as const);
  expect(planner.plan(stepWith([[0, 512], ...decodes]))).toEqual([[1, 2, 3, 4, 5, 6, 7], [0]]);
});

test("short chunks are one call, long ones of different lengths are not", () => {
  expect(planner.plan(stepWith([16, 14, 15, 16].map((length) => [0, length])))).toEqual([[1, 2, 0, 3]]);
  expect(
    planner.plan(
      stepWith([
        [0, 2048],
        [0, 300],
      ]),
    ),
  ).toEqual([[1], [0]]);
});

test("a decode with a long context is not in a call with many short ones", () => {
  const ranges = Array.from({ length: 40 }, (_, i) => (i === 7 ? [8000, 8001] : [100, 101]) as [number, number]);
  expect(planner.plan(stepWith(ranges)).map((call) => call.length)).toEqual([39, 1]);
});

test("a sequence that reads blocks that another one writes in the same step is in a later call", () => {
  const first = { tokens: zeros, from: 0, to: 12, table: [0, 1, 2] };
  const second = { tokens: zeros, from: 8, to: 14, table: [0, 1, 3, 4] };
  const third = { tokens: zeros, from: 12, to: 15, table: [0, 1, 3, 5] };
  const apart = { tokens: zeros, from: 0, to: 12, table: [6, 7, 8] };
  for (let times = 0; times < 2; times++)
    expect(planner.plan(stepOf([first, second, third, apart]))).toEqual([[0, 3], [1], [2]]);
});

test("every sequence is in one call", () => {
  const range = fc.tuple(fc.nat(3000), fc.integer({ min: 1, max: 700 }));
  fc.assert(
    fc.property(fc.array(range, { minLength: 1, maxLength: 20 }), (drawn) => {
      const calls = planner.plan(stepWith(drawn.map(([from, count]) => [from, from + count])));
      expect(calls.flat().sort((a, b) => a - b)).toEqual(wholeTable(drawn.length));
    }),
    { numRuns: 100 },
  );
});

test("the simulator divides a step into the calls of the engine", () => {
  const range = fc.tuple(fc.nat(3000), fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 900 })));
  fc.assert(
    fc.property(fc.array(range, { minLength: 1, maxLength: 12 }), (drawn) => {
      const step = splitPrompts(stepWith(drawn.map(([from, tokens]) => [from, from + tokens])), 256);
      const calls = planner.plan(step);
      const padded = (call: readonly number[], of: (sequence: number) => number) => Math.max(...call.map(of));
      const context = (call: readonly number[]) => call.length * padded(call, (s) => step.contextLens[s]);
      const query = (call: readonly number[]) => padded(call, (s) => step.cuSeqlensQ[s + 1] - step.cuSeqlensQ[s]);
      const load = noLoad();
      const items = drawn.map(([from, tokens]) => ({ from, tokens }));
      new CpuStepLoads(callRules(config)).measure(load, { items, count: items.length } as unknown as StepPlan);
      expect(load).toMatchObject({
        calls: calls.length,
        paddedContextTokens: calls.reduce((sum, call) => sum + context(call), 0),
        farContextTokens: calls.reduce((sum, call) => sum + Math.max(0, context(call) - 1024), 0),
        paddedPairs: calls.reduce((sum, call) => sum + context(call) * query(call), 0),
      });
    }),
    { numRuns: 200 },
  );
});

test("a window's context begins at a multiple of the block size and of a group of 128 to 1,024 tokens, and contains the whole window", () => {
  const first = (headDim: number, block: number, begin: number) =>
    firstGathered({ window: 512, headDim }, block, begin);
  expect([0, 511, 512 + 254, 512 + 255, 4095].map((begin) => first(64, 16, begin))).toEqual([0, 0, 0, 256, 3584]);
  expect([16, 32, 33, 64, 65, 256].map((headDim) => first(headDim, 16, 4700))).toEqual([
    4096, 4096, 4096, 4096, 4096, 4096,
  ]);
  expect([16, 32, 33, 64, 65, 256].map((headDim) => first(headDim, 16, 4600))).toEqual([
    3072, 3584, 3840, 3840, 3968, 3968,
  ]);
  // Blocks of 24 tokens and groups of 256 begin together at multiples of 768.
  expect(first(64, 24, 4095)).toBe(3072);
  expect(firstGathered({ window: undefined, headDim: 64 }, 16, 4095)).toBe(0);
});

test("a long prompt is split into sequences of 256 tokens, each with the earlier ones as context; rows keep their order", () => {
  const whole = stepWith([
    [500, 501],
    [100, 700],
    [0, 256],
  ]);
  const step = splitPrompts(whole, 256);
  expect([...step.cuSeqlensQ]).toEqual([0, 1, 257, 513, 601, 857]);
  expect([...step.contextLens]).toEqual([501, 356, 612, 700, 256]);
  const { maxBlocksPerSequence: width } = whole;
  const table = (of: typeof whole, i: number) => [...of.blockTables.subarray(i * width, (i + 1) * width)];
  expect([0, 1, 2, 3, 4].map((i) => table(step, i))).toEqual([0, 1, 1, 1, 2].map((i) => table(whole, i)));
  const { slotMapping, logitsIndices, inputIds, positions } = step;
  expect({ slotMapping, logitsIndices, inputIds, positions }).toEqual({
    slotMapping: whole.slotMapping,
    logitsIndices: whole.logitsIndices,
    inputIds: whole.inputIds,
    positions: whole.positions,
  });
  expect(planner.plan(step)).toEqual([[0], [4, 1], [2], [3]]);
});

test("a prompt whose KV is not stored is not split: its later tokens could not read the earlier ones", () => {
  const whole = stepWith([[0, 600]]);
  whole.slotMapping[17] = -1;
  expect(splitPrompts(whole, 256)).toBe(whole);
});
