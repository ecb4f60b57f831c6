import fc from "fast-check";
import { expect, test } from "vitest";
import type { StepPlan } from "../../../core/replica/step.ts";
import { noLoad } from "../../../core/serving/step-load.ts";
import { type CallRules, cheapestCalls } from "../../../engine/cpu/call-rules.ts";
import { CpuStepLoads } from "../../../engine/cpu/step-loads.ts";

const rules: CallRules = { longestQuery: 256, perCall: 10, perContextToken: 0.001, perScore: 0.0001 };

/** A step of sequences that compute `tokens` from `from` on. */
const planOf = (items: readonly { readonly from: number; readonly tokens: number }[]) =>
  ({ items, count: items.length }) as unknown as StepPlan;

function measured(items: readonly { readonly from: number; readonly tokens: number }[]) {
  const load = noLoad();
  new CpuStepLoads(rules).measure(load, planOf(items));
  const { calls, paddedContextTokens, farContextTokens, paddedPairs } = load;
  return { calls, paddedContextTokens, farContextTokens, paddedPairs };
}

/** The cost of a division, by its definition. */
function cost(calls: readonly (readonly number[])[], queries: readonly number[], contexts: readonly number[]): number {
  return calls.reduce((sum, call) => {
    const query = Math.max(2, ...call.map((sequence) => queries[sequence]));
    const context = Math.max(...call.map((sequence) => contexts[sequence]));
    return sum + rules.perCall + call.length * context * (rules.perContextToken + rules.perScore * query);
  }, 0);
}

test("decodes are one call, padded to the longest; a prompt in the same step is another one", () => {
  const decodes = [100, 300, 200].map((from) => ({ from, tokens: 1 }));
  expect(measured(decodes)).toEqual({
    calls: 1,
    paddedContextTokens: 3 * 301,
    farContextTokens: 0,
    paddedPairs: 3 * 301,
  });
  expect(measured([...decodes, { from: 64, tokens: 200 }])).toEqual({
    calls: 2,
    paddedContextTokens: 3 * 301 + 264,
    farContextTokens: 0,
    paddedPairs: 3 * 301 + 200 * 264,
  });
});

test("a long prompt is one call per chunk, in order; a sequence that computes nothing is in no call", () => {
  expect(
    measured([
      { from: 0, tokens: 600 },
      { from: 50, tokens: 0 },
    ]),
  ).toEqual({
    calls: 3,
    paddedContextTokens: 256 + 512 + 600,
    farContextTokens: 0,
    paddedPairs: 256 * 256 + 256 * 512 + 88 * 600,
  });
  expect(measured([])).toEqual({ calls: 0, paddedContextTokens: 0, farContextTokens: 0, paddedPairs: 0 });
});

test("far tokens are those that a call gathers beyond 1,024", () => {
  const decodes = (count: number) => Array.from({ length: count }, () => ({ from: 499, tokens: 1 }));
  expect(measured(decodes(2)).farContextTokens).toBe(0);
  expect(measured(decodes(8)).farContextTokens).toBe(4000 - 1024);
  expect(measured([{ from: 900, tokens: 500 }])).toMatchObject({
    calls: 2,
    farContextTokens: 1156 - 1024 + (1400 - 1024),
  });
});

test("no other division of the sorted sequences costs less", () => {
  const sequence = fc.record({ query: fc.integer({ min: 1, max: 300 }), context: fc.integer({ min: 1, max: 4000 }) });
  fc.assert(
    fc.property(fc.array(sequence, { minLength: 1, maxLength: 8 }), (drawn) => {
      const queries = drawn.map(({ query }) => query);
      const contexts = drawn.map(({ query, context }) => query + context);
      const all = drawn.map((_, i) => i);
      const found = cheapestCalls(rules, queries, contexts, all);
      const sorted = found.flat();
      expect([...sorted].sort((a, b) => a - b)).toEqual(all);
      for (let cuts = 0; cuts < 2 ** (all.length - 1); cuts++) {
        const other: number[][] = [[]];
        sorted.forEach((each, i) => {
          if (i > 0 && (cuts >> (i - 1)) & 1) other.push([]);
          other.at(-1)!.push(each);
        });
        expect(cost(found, queries, contexts)).toBeLessThanOrEqual(cost(other, queries, contexts) + 1e-9);
      }
    }),
    { numRuns: 200 },
  );
});
