import fc from "fast-check";
import { expect, test } from "vitest";
import type { Counters } from "../../../core/cache/counters.ts";
import type { EventLog } from "../../../core/log/event-log.ts";
import { Miss } from "../../../core/log/miss-reasons.ts";
import type { Rules } from "../../../core/plugins/rules.ts";
import { blockKeysFor } from "../../../core/replica/compose.ts";
import { CacheReplay } from "../../../core/replica/replay.ts";
import type { BlockColumns } from "../../../core/trace/content.ts";
import type { Trace } from "../../../core/trace/trace.ts";
import { explained } from "../../../lab/explain/explain.ts";
import type { Distribution, Explanation, Residency } from "../../../lab/explain/explanation.ts";
import { RequestFacts } from "../../../lab/explain/request-facts.ts";
import { isExplainable } from "../../../lab/explain/run-logs.ts";
import { replays } from "../../../laws/configs.ts";
import type { ScenarioConfig } from "../../../laws/scenario.ts";
import { traceOf, type Workload } from "../../../laws/workloads.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry } from "../../../policies/registry.ts";
import { simulate } from "../../../sim/simulation.ts";
import { allPlugins } from "../../laws/all-plugins.ts";
import { settings, simulationConfigOf, tracesOf, workloads } from "../../support/simulated.ts";
import { type NaiveInput, naive } from "./naive.ts";
import "../../support/seed.ts";

interface Served {
  readonly trace: Trace;
  readonly blocks: BlockColumns;
  readonly log: EventLog;
  readonly rules: Rules;
  readonly counters: Counters;
  readonly warmup: number;
  readonly hasClock: boolean;
}

/** The explanation of all requests that were admitted, and the naive one. */
function both({ trace, blocks, log, rules, warmup, hasClock }: Served) {
  const input: NaiveInput = {
    ...{ log, trace, blocks, warmup, hasClock, isCounted: true },
    leavesOnly: rules.victims === "leaf",
    missesLast: rules["full-hit"] === "rewrite-miss",
  };
  const facts = new RequestFacts();
  facts.add({ trace, blocks });
  const { leavesOnly, missesLast } = input;
  const lookups = { blockTokens: blocks.blockTokens, warmup, isCounted: true, missesLast };
  const replica = { replica: 0, facts, lookups, hasClock, leavesOnly, measuredFrom: log.measuredFrom };
  const columns = log.columns();
  const requests = [...new Set(columns.request.filter((_, at) => log.eventAt(at).name === "admit"))];
  const pieces = () => [columns];
  const all = explained([{ ...replica, recomputeNs: undefined, pieces }], { requests, top: 10_000 });
  return { residency: all.residency, explanation: all.explanation!, expected: naive(input) };
}

const total = (numbers: Iterable<number>) => [...numbers].reduce((sum, each) => sum + each, 0);

function expectDistribution(found: Distribution, values: readonly number[]): void {
  const sorted = [...values].sort((a, b) => a - b);
  expect(found.count).toBe(values.length);
  expect(total(found.bins.map(({ count }) => count))).toBe(values.length);
  expect(found.max).toBe(sorted.at(-1) ?? 0);
  if (values.length === 0) return;
  expect(found.mean).toBeCloseTo(total(values) / values.length, 6);
  for (const [share, name] of [
    [0.1, "p10"],
    [0.5, "p50"],
    [0.9, "p90"],
    [0.99, "p99"],
  ] as const) {
    const value = sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
    expect(found[name]).toBe(Number(String(value).replace(/(?<=^\d{3})\d+/, (rest) => "0".repeat(rest.length))));
  }
  for (const { from, below, count } of found.bins)
    expect(values.filter((value) => value >= from && value < below)).toHaveLength(count);
}

/** The totals that docs/explain.md states, and all numbers of the naive recomputation. */
function expectSame(served: Served): void {
  const { residency, explanation, expected } = both(served);
  const { counters } = served;
  expectTotals(residency, explanation, counters);
  expect(residency.removedBlocks).toEqual(expected.removedBlocks);
  expect(residency.cachedBlocks).toBe(expected.cachedBlocks);
  expect(explanation.missedTokens).toEqual(expected.missedTokens);
  for (const name of ["ageAtHit", "ageAtEviction", "lifetime", "hitsPerBlock"] as const)
    expectDistribution(residency[name], expected[name]);
  expectDistribution(
    residency.ageAtMiss,
    expected.ageAtMiss.flatMap(([age, tokens]) => Array<number>(tokens).fill(age)),
  );
  const { rightBlocks, missedBlocks, avoidableTokens } = expected;
  expect(explanation.evictions).toEqual({ blocks: counters.evictedBlocks, rightBlocks, missedBlocks, avoidableTokens });
  const costs = explanation.worst.map(({ missedTokens }) => missedTokens);
  expect(costs).toEqual([...costs].sort((a, b) => b - a));
  expect(sortedByText(explanation.worst)).toEqual(sortedByText(expected.batches));
  expect(explanation.requests).toEqual(expected.requests);
}

/** In an order that depends only on the values. */
const sortedByText = <T>(all: readonly T[]) =>
  all
    .map((value) => [JSON.stringify(Object.entries(value as object).sort()), value] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, value]) => value);

function expectTotals(residency: Residency, { missedTokens, evictions }: Explanation, counters: Counters): void {
  expect(total(Object.values(missedTokens))).toBe(counters.missTokens[Miss.evicted]);
  expect(residency.ageAtMiss.count + residency.notStoredTokens).toBe(counters.missTokens[Miss.evicted]);
  expect(residency.ageAtHit.count).toBe(counters.hitBlocks);
  expect(residency.ageAtEviction.count).toBe(counters.evictedBlocks);
  expect(evictions.blocks).toBe(counters.evictedBlocks);
  expect(residency.removedBlocks.expiry).toBe(counters.expiredBlocks);
  const removed = total(Object.values(residency.removedBlocks));
  expect(residency.lifetime.count).toBe(removed);
  expect(residency.hitsPerBlock.count).toBe(removed + residency.cachedBlocks);
}

function servedWithoutClock(workload: Workload, config: ScenarioConfig, warmup: number): Served {
  const [trace] = traceOf(workload);
  const { blockUnits, ...own } = config;
  const blockTokens = workload.unitTokens * blockUnits;
  const full = { scheduler: allPlugins.reference.scheduler, ...own, blockTokens, warmup, events: true };
  const blocks = CacheReplay.blockKeys(full, trace);
  const replay = new CacheReplay(full);
  replay.feed(trace, blocks);
  const { cache, log } = replay.result();
  return { trace, blocks, log: log!, rules: cache.rules, counters: cache.counters, warmup, hasClock: false };
}

test("an evicted block of which a partial match has all tokens has no age at a miss and no cost", () => {
  const requests = [
    [1, 0],
    [1, 0, 0],
    [1, 0],
  ].map((prompt, id) => ({
    ...{ id, namespace: 0, prompt, output: [1000 + id], maxOutputTokens: 1, markedTokens: 0 },
  }));
  const config = {
    ...{ eviction: evictionRegistry.get("lru"), allocator: allocatorRegistry.get("block") },
    ...{ index: indexRegistry.get("block-trie"), rules: { partial: "steal-only" } as const },
    ...{ blockUnits: 2, blocks: 1, seed: 0 },
  };
  const served = servedWithoutClock({ unitTokens: 2, requests }, config, 0);
  expectSame(served);
  expect(both(served).residency.ageAtMiss).toMatchObject({ count: 0, max: 0 });
});

test("without a clock, explanations of any composition equal a naive recomputation from the event log", () => {
  const cases = fc.record({ replay: replays(allPlugins), warmup: fc.constantFrom(0, 0, 2) });
  fc.assert(
    fc.property(cases, ({ replay: { workload, config }, warmup }) => {
      if (warmup >= workload.requests.length) return;
      const served = servedWithoutClock(workload, config, warmup);
      if (isExplainable(served.rules)) expectSame(served);
    }),
    { numRuns: 250 },
  );
});

test("in virtual time, explanations of every preset and scheduler equal a naive recomputation", () => {
  fc.assert(
    fc.property(workloads({ maxRequests: 16 }), settings, (rows, setting) => {
      const [trace] = tracesOf(rows);
      const config = simulationConfigOf(setting);
      const blocks = blockKeysFor(config, trace.unitTokens).of(trace);
      const { replicas } = simulate(trace, config, blocks);
      const [{ cache, log }] = replicas;
      const { rules, counters } = cache;
      expectSame({ trace, blocks, log: log!, rules, counters, warmup: 0, hasClock: true });
    }),
    { numRuns: 100 },
  );
});
