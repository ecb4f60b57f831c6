import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import { blockKeysFor, rulesFor } from "../../../core/replica/compose.ts";
import type { PackingBound } from "../../../lab/bound/packing.ts";
import { ReuseIntervals } from "../../../lab/bound/reuse-intervals.ts";
import { sum } from "../../../laws/replay-of.ts";
import { traceOf, type Workload } from "../../../laws/workloads.ts";
import { indexRegistry } from "../../../policies/registry.ts";
import { runs } from "../../laws/all-plugins.ts";
import { replayed } from "../../support/replays.ts";
import { mostHits, type SearchedCache } from "./most-hits.ts";

/** Prompts of a small set, whole or in part, in any order. */
const drawnWorkloads: fc.Arbitrary<Workload> = fc
  .record({
    unitTokens: fc.constantFrom(1, 2, 3),
    prompts: fc.array(fc.array(fc.nat(1), { minLength: 1, maxLength: 7 }), { minLength: 1, maxLength: 4 }),
    order: fc.array(fc.record({ prompt: fc.nat(3), cut: fc.constantFrom(0, 0, 0, 1, 2) }), {
      minLength: 2,
      maxLength: 8,
    }),
    outputTokens: fc.integer({ min: 1, max: 3 }),
  })
  .map(({ unitTokens, prompts, order, outputTokens }) => ({
    unitTokens,
    requests: order.map(({ prompt: which, cut }, id) => {
      const whole = prompts[which % prompts.length];
      const prompt = whole.slice(0, Math.max(1, whole.length - cut));
      const output = Array.from({ length: outputTokens }, (_, i) => (unitTokens === 1 ? i % 2 : 10 * (id + 1) + i));
      return { id, namespace: 0, prompt, output, maxOutputTokens: outputTokens, markedTokens: 0 };
    }),
  }));

const caches: fc.Arbitrary<SearchedCache> = fc
  .record({
    workload: drawnWorkloads,
    blockUnits: fc.integer({ min: 1, max: 2 }),
    blocks: fc.integer({ min: 1, max: 6 }),
    isLimited: fc.constantFrom(false, false, true),
    cachesOutput: fc.constantFrom(false, false, true),
  })
  .map(({ blockUnits, ...cache }) => ({ ...cache, blockTokens: blockUnits * cache.workload.unitTokens }));

const rulesOf = ({ isLimited, cachesOutput }: SearchedCache): Partial<Record<RuleName, RuleValue>> => ({
  "match-limit": isLimited ? "l-1" : "all",
  "cache-generated": `${cachesOutput}`,
});

function boundOf(cache: SearchedCache, metric: "block" | "token"): PackingBound {
  const { workload, blockTokens, blocks } = cache;
  const [trace] = traceOf(workload);
  const config = { index: indexRegistry.get("hash-table"), rules: rulesOf(cache), blockTokens };
  const rules = rulesFor(config.index, config.rules);
  const intervals = new ReuseIntervals({ blocks, blockTokens, rules }, { itemTokens: blockTokens, isPartial: false });
  intervals.add(trace, blockKeysFor(config, trace.unitTokens).of(trace));
  return intervals.bound(metric);
}

/** Fails unless the bound is what the search of all evictions finds; returns whether the cache has fewer hits than an unlimited one. */
function expectExact(cache: SearchedCache, metric: "block" | "token", change = 0): boolean {
  const { bound, reached } = boundOf(cache, metric);
  const most = mostHits(cache, metric, false);
  expect({ bound: bound + change, reached }).toEqual({ bound: most, reached: most });
  const mostByLeaves = mostHits(cache, metric, true);
  if (cache.isLimited) expect(mostByLeaves).toBeLessThanOrEqual(most);
  else expect(mostByLeaves).toBe(most);
  return most < boundOf({ ...cache, blocks: 1000 }, metric).bound;
}

describe("the bound of hits in whole blocks is the result of an exhaustive search of all evictions, of leaves or of any block", () => {
  test.each(["block", "token"] as const)("by %s", (metric) => {
    let contended = 0;
    const check = (cache: SearchedCache) => void (contended += expectExact(cache, metric) ? 1 : 0);
    fc.assert(fc.property(caches, check), { numRuns: runs(700) });
    expect(contended).toBeGreaterThan(50);
  });
});

test("a bound that is too low by one is detected, and so is one that is too high", () => {
  for (const change of [-1, 1]) {
    const check = (cache: SearchedCache) => void expectExact(cache, "block", change);
    expect(() => fc.assert(fc.property(caches, check), { numRuns: 20 })).toThrow("Property failed");
  }
});

test("belady reaches the bound in a hash table if every block may be a hit", () => {
  const check = (cache: SearchedCache) => {
    const { workload, blockTokens, blocks } = cache;
    const { requests } = replayed(traceOf(workload)[0], {
      policy: "belady",
      blockTokens,
      blocks,
      rules: rulesOf(cache),
    });
    expect(sum(requests.hitBlocks)).toBe(boundOf(cache, "block").bound);
  };
  const all = caches.map((cache) => ({ ...cache, isLimited: false }));
  fc.assert(fc.property(all, check), { numRuns: runs(300) });
});

test("where a block may not be a hit, evicting only leaves can cost hits, and the bound does not count them", () => {
  // Only a of a request ab may be a hit. b is computed again in any case, but a tree stores it as long as abc.
  const prompts = [[0, 1, 2, 3], [0, 1], [5], [6, 7], [0, 1], [0, 1, 2, 3]];
  const requests = prompts.map((prompt, id) => ({
    ...{ id, namespace: 0, prompt, output: [9] },
    ...{ maxOutputTokens: 1, markedTokens: 0 },
  }));
  const cache = {
    workload: { unitTokens: 1, requests },
    blockTokens: 1,
    blocks: 4,
    isLimited: true,
    cachesOutput: false,
  };
  expect(mostHits(cache, "block", true)).toBe(4);
  expect(mostHits(cache, "block", false)).toBe(5);
  expect(boundOf(cache, "block").bound).toBe(5);
});
