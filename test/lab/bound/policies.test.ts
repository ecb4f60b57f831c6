import fc from "fast-check";
import { expect, test } from "vitest";
import { cacheReport } from "../../../core/cache/report.ts";
import { blockKeysFor, rulesFor } from "../../../core/replica/compose.ts";
import { type ReplayConfig, replayTrace } from "../../../core/replica/replay.ts";
import { itemsOf } from "../../../lab/bound/hit-bounds.ts";
import { wholeOf } from "../../../lab/bound/offline-bounds.ts";
import { ReuseIntervals } from "../../../lab/bound/reuse-intervals.ts";
import { metrics } from "../../../lab/output/hit-ratios.ts";
import { configs } from "../../../laws/configs.ts";
import { traceOf, type Workload, workloads } from "../../../laws/workloads.ts";
import { presetRegistry, schedulerRegistry } from "../../../policies/registry.ts";
import { allPlugins, runs } from "../../laws/all-plugins.ts";

/** Fails if a hit ratio of a replay exceeds its bound; returns the number of ratios that reach theirs. */
function expectBounded(workload: Workload, config: ReplayConfig, slots = 0): number {
  const [trace] = traceOf(workload);
  const { blocks, blockTokens, warmup = 0 } = config;
  if (blocks === undefined || config.eviction.unlimited || warmup >= trace.requestCount) return 0;
  const { cache, requests } = replayTrace(trace, config);
  const { hitRatio } = cacheReport(cache.counters);
  const rules = rulesFor(config.index, config.rules);
  const refused = new Set([...requests.refused.keys()].filter((r) => requests.refused[r] === 1));
  let tight = 0;
  for (const metric of metrics) {
    const { parts, ...size } = itemsOf(metric, config, { blockTokens, unitTokens: trace.unitTokens });
    const items = blockKeysFor({ ...parts, blockTokens: size.itemTokens }, trace.unitTokens).of(trace);
    const intervals = new ReuseIntervals({ blocks: blocks + slots, blockTokens, rules, warmup, refused }, size);
    intervals.add(trace, items);
    const { bound } = intervals.bound(metric);
    const hits = hitRatio[metric] * wholeOf(metric, cache.counters);
    const { index, eviction, scheduler } = config;
    const described = `${metric} of ${index.name}, ${eviction.name}, ${scheduler.name}: ${hits} of ${bound}`;
    expect(hits - 1e-9, described).toBeLessThanOrEqual(bound);
    if (hits > 0 && hits > bound - 1e-9) tight++;
  }
  return tight;
}

const drawn = fc.record({
  workload: workloads({ related: true }),
  config: configs(allPlugins),
  scheduler: fc.constantFrom(...schedulerRegistry.all),
  warmup: fc.constantFrom(0, 0, 3),
});

const replayConfigOf = ({
  workload,
  config,
  scheduler,
  warmup,
}: typeof drawn extends fc.Arbitrary<infer One> ? One : never) => ({
  ...config,
  blockTokens: config.blockUnits * workload.unitTokens,
  scheduler,
  warmup,
});

test("no eviction policy exceeds the bound of any metric, in any index, under any rules and schedulers", () => {
  let tight = 0;
  const check = (one: Parameters<typeof replayConfigOf>[0]) =>
    void (tight += expectBounded(one.workload, replayConfigOf(one)));
  fc.assert(fc.property(drawn, check), { numRuns: runs(800) });
  expect(tight).toBeGreaterThan(200);
});

test("no preset exceeds the bound of any metric, with any eviction policy", () => {
  const presets = fc.record({
    workload: workloads({ related: true }),
    preset: fc.constantFrom(...presetRegistry.all),
    eviction: fc.constantFrom(...allPlugins.evictions),
    blocks: fc.integer({ min: 1, max: 14 }),
    blockUnits: fc.integer({ min: 1, max: 3 }),
  });
  const check = ({
    workload,
    preset,
    eviction,
    blocks,
    blockUnits,
  }: typeof presets extends fc.Arbitrary<infer One> ? One : never) => {
    const { index, allocator, rules = {} } = preset;
    const scheduler = schedulerRegistry.get(preset.scheduler);
    const blockTokens = blockUnits * workload.unitTokens;
    expectBounded(workload, { index, eviction, allocator, scheduler, rules, seed: 1, blockTokens, blocks });
  };
  fc.assert(fc.property(presets, check), { numRuns: runs(800) });
});

test("a policy that exceeds the bound of a smaller cache is detected", () => {
  const check = (one: Parameters<typeof replayConfigOf>[0]) =>
    void expectBounded(one.workload, replayConfigOf(one), -1);
  const large = drawn.filter(({ config }) => (config.blocks ?? 0) > 1);
  expect(() => fc.assert(fc.property(large, check), { numRuns: 300 })).toThrow("Property failed");
});
