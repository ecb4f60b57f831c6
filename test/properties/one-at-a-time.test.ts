import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CacheReplay, type ReplayConfig, type ReplayResult, replayTrace } from "../../core/replay.ts";
import { cacheReport } from "../../core/report.ts";
import { evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { linesOf } from "../support/logs.ts";
import { configs, runs, weakHash } from "./configs.ts";
import { hitsWithoutLimit } from "./naive-model.ts";
import type { ScenarioConfig } from "./scenario.ts";
import { traceOf, type World, worlds } from "./worlds.ts";

// Whole replays, as users run them: one request after the other, for every combination of plug-ins and rules.

const scheduler = schedulerRegistry.get("naive");

function replayOf(world: World, { blockUnits, ...config }: ScenarioConfig, own: Partial<ReplayConfig> = {}) {
  const [trace] = traceOf(world);
  return replayTrace(trace, { scheduler, ...config, blockTokens: world.unitTokens * blockUnits, ...own });
}

const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, n) => total + n, 0);
const hitsOf = ({ requests }: ReplayResult) => [...requests.hitBlocks];
const manyAsks = worlds({ maxAsks: 40 });

describe.each(indexRegistry.all.map((index) => [index.name, index] as const))("index %s", (_name, index) => {
  const configsOf = configs({ indexes: [index] });

  test.each(schedulerRegistry.all.map((plugin) => [plugin.name, plugin] as const))(
    "under %s every invariant holds after every step, and the figures add up",
    (_name, scheduler) => {
      fc.assert(
        fc.property(manyAsks, configsOf, (world, config) => {
          const { cache, requests } = replayOf(world, config, { scheduler, audit: true, events: true });
          const report = cacheReport(cache.counters);
          const { hitRatio, missTokens } = report;
          expect(report.lookupTokens).toBe(report.hitTokens + sum(Object.values(missTokens)) + report.refusedTokens);
          // Every figure again, from what became of each request.
          const rows = world.asks.map((_, r) => ({
            hit: requests.hitBlocks[r],
            hitTokens: requests.hitTokens[r],
            blocks: requests.promptBlocks[r],
            full: Math.floor(requests.inputTokens[r] / cache.blockTokens),
            tokens: requests.inputTokens[r],
          }));
          const ratio = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);
          const blocks = sum(rows.map((row) => row.blocks));
          const tokens = sum(rows.map((row) => row.tokens));
          const full = sum(rows.map((row) => row.full));
          expect(report).toMatchObject({ lookups: rows.length, lookupBlocks: blocks, lookupTokens: tokens });
          expect(report.refusedRequests).toBe(sum(requests.refused));
          expect(hitRatio.block).toBe(ratio(sum(rows.map((row) => row.hit)), blocks));
          expect(hitRatio.token).toBe(ratio(sum(rows.map((row) => row.hitTokens)), tokens));
          expect(hitRatio.fullBlock).toBe(ratio(sum(rows.map((row) => Math.min(row.hit, row.full))), full));
          expect(hitRatio.requestMeanBlock).toBeCloseTo(
            sum(rows.map((row) => ratio(row.hit, row.blocks))) / rows.length,
            12,
          );
          expect(hitRatio.requestMeanToken).toBeCloseTo(
            sum(rows.map((row) => row.hitTokens / row.tokens)) / rows.length,
            12,
          );
          expect(hitRatio.anyResidentBlock).toBeGreaterThanOrEqual(hitRatio.block);
          if (index.none) expect(report.hitBlocks).toBe(0);
        }),
        { numRuns: runs(120) },
      );
    },
  );

  test("without a limit every policy hits what the naive model hits", () => {
    fc.assert(
      fc.property(manyAsks, configsOf, (world, config) => {
        const expected = hitsWithoutLimit(world, config, replayOf(world, config).cache.rules);
        for (const eviction of evictionRegistry.all) {
          const replay = replayOf(world, { ...config, eviction, blocks: undefined });
          expect(hitsOf(replay), eviction.name).toEqual(index.none ? world.asks.map(() => 0) : expected.blocks);
          expect([...replay.requests.hitTokens]).toEqual(index.none ? world.asks.map(() => 0) : expected.tokens);
        }
      }),
      { numRuns: runs(60) },
    );
  });

  test("no policy has more hits than belady at any capacity", () => {
    fc.assert(
      fc.property(manyAsks, configs({ indexes: [index], noRules: true }), (world, config) => {
        const optimal = { index: indexRegistry.get("hash-table"), eviction: evictionRegistry.get("belady"), rules: {} };
        const most = sum(hitsOf(replayOf(world, { ...config, ...optimal })));
        for (const eviction of evictionRegistry.all) {
          if (eviction.unlimited) continue;
          const hits = sum(hitsOf(replayOf(world, { ...config, eviction })));
          expect(hits, `${eviction.name} against belady's ${most}`).toBeLessThanOrEqual(most);
        }
      }),
      { numRuns: runs(80) },
    );
  });

  test("the same trace, configuration and seed give the same log", () => {
    fc.assert(
      fc.property(manyAsks, configsOf, (world, config) => {
        const once = linesOf(replayOf(world, config, { events: true }).log!);
        expect(linesOf(replayOf(world, config, { events: true }).log!)).toEqual(once);
      }),
      { numRuns: runs(40) },
    );
  });

  test("where nearly all hashes collide, nothing is decided differently", () => {
    fc.assert(
      fc.property(manyAsks, configs({ indexes: [index], rules: { collision: "compare" } }), (world, config) => {
        const good = linesOf(replayOf(world, config, { events: true }).log!);
        expect(linesOf(replayOf(world, config, { events: true, hash: weakHash }).log!)).toEqual(good);
      }),
      { numRuns: runs(60) },
    );
  });

  test("with log, audit or neither, hits and figures are the same", () => {
    fc.assert(
      fc.property(manyAsks, configsOf, (world, config) => {
        const plain = replayOf(world, config);
        const watched = replayOf(world, config, { audit: true, events: true });
        expect(hitsOf(watched)).toEqual(hitsOf(plain));
        expect(watched.cache.counters).toEqual(plain.cache.counters);
      }),
      { numRuns: runs(60) },
    );
  });

  test("a trace that comes in batches gives the same hits as in one piece", () => {
    const whole = configsOf.filter(({ eviction }) => !eviction.offline);
    fc.assert(
      fc.property(manyAsks, whole, fc.integer({ min: 1, max: 7 }), (world, config, batchOf) => {
        const { blockUnits, ...rest } = config;
        const replay = new CacheReplay({ scheduler, ...rest, blockTokens: world.unitTokens * blockUnits });
        for (const batch of traceOf(world, batchOf)) replay.feed(batch);
        const together = replayOf(world, config);
        expect(hitsOf(replay.result())).toEqual(hitsOf(together));
        expect(replay.result().cache.counters).toEqual(together.cache.counters);
      }),
      { numRuns: runs(60) },
    );
  });

  test("a trace of content ids hits the same whole blocks as the tokens that it stands for", () => {
    fc.assert(
      fc.property(manyAsks, configs({ indexes: [index], noRules: true }), (world, config) => {
        const unitTokens = 2;
        const tokens = { ...config, blockUnits: unitTokens * config.blockUnits, blocks: undefined };
        const asks = world.asks.map((ask) => ({ ...ask, answer: ask.answer.map((_, i) => 1000 * (ask.id + 1) + i) }));
        const byToken = replayOf({ unitTokens: 1, asks }, tokens);
        const byContent = replayOf({ unitTokens, asks }, { ...config, blocks: undefined });
        const { counters } = byContent.cache;
        expect(counters.fullHitBlocks).toBe(byToken.cache.counters.hitBlocks);
        expect(counters.fullLookupBlocks).toBe(byToken.cache.counters.lookupBlocks);
      }),
      { numRuns: runs(60) },
    );
  });
});

test("another seed changes what random evicts", () => {
  const [config] = fc.sample(configs({ indexes: [indexRegistry.get("hash-table")], noRules: true }), 1);
  const asks = Array.from({ length: 40 }, (_, id) => ({
    id,
    namespace: 0,
    prompt: Array.from({ length: 8 }, (_, i) => (i < 4 ? 1 : id)),
    answer: [1],
    maxOutputTokens: 1,
  }));
  const logs = [1, 2, 3, 4].map((seed) => {
    const own = { ...config, eviction: evictionRegistry.get("random"), blocks: 16, blockUnits: 1, seed };
    return linesOf(replayOf({ unitTokens: 1, asks }, own, { events: true }).log!).join();
  });
  expect(new Set(logs).size).toBe(4);
});
