import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveRules } from "../../core/plugins/rules.ts";
import { replayTrace } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { workloads as generatedWorkloads, traceOf } from "../../laws/workloads.ts";
import { evictionRegistry, presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { simulate } from "../../sim/simulation.ts";
import {
  linearCost,
  linesOf,
  type OwnSimulation,
  outcome,
  type Row,
  simulationConfigOf,
  tracesOf,
  workloads,
} from "../support/simulated.ts";

/** The rows, so far apart that every request has ended when the next one arrives. */
const apart = (rows: readonly Row[]): Trace => tracesOf(rows.map((row, i) => ({ ...row, at: i * 1_000_000 })))[0];
const withoutTime = (line: string) => line.slice(line.indexOf(" ") + 1);

/** The decisions of target `cache` and of the simulator. */
function onBothTargets(trace: Trace, own: OwnSimulation, generation: "skip" | "step") {
  const { router, ...config } = simulationConfigOf({
    ...own,
    events: true,
    audit: true,
    cost: linearCost({ fixed: 3, prefillTokens: 2 }),
  });
  const simulation = simulate(trace, config);
  const { log, requests, cache } = replayTrace(trace, { ...config, generation });
  const lines = Array.from({ length: log!.count }, (_, at) => withoutTime(log!.line(at)));
  return {
    replay: { lines, requests, counters: cache.counters },
    simulation: {
      lines: linesOf(simulation).map(withoutTime),
      simulation,
      counters: simulation.replicas[0].cache.counters,
    },
  };
}

function expectSame({ replay, simulation }: ReturnType<typeof onBothTargets>): void {
  expect(simulation.lines).toEqual(replay.lines);
  expect(simulation.counters).toEqual(replay.counters);
  for (const name of ["hitBlocks", "hitTokens", "refused"] as const)
    expect(outcome(simulation.simulation, name)).toEqual([...replay.requests[name]]);
}

const presets = presetRegistry.all.map((preset) => [preset.name, preset] as const);
const evictions = evictionRegistry.all.map(({ name }) => [name]);
const sizes = fc.record({
  blockTokens: fc.constantFrom(1, 2, 4, 16),
  tokens: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 20, max: 120 }) }, fc.constant(undefined)),
  scheduler: fc.constantFrom("naive", ...schedulerRegistry.all.map(({ name }) => name)),
});
const configOf = ({ tokens, ...own }: { blockTokens: number; tokens: number | undefined; scheduler: string }) => ({
  ...own,
  blocks: tokens === undefined ? undefined : Math.ceil(tokens / own.blockTokens),
});
const runs = { numRuns: 80 };

test.each(presets)(
  "%s: with outputs of one token, the simulator makes the decisions of target cache",
  (_name, preset) => {
    fc.assert(
      fc.property(workloads({ maxOutputTokens: 1 }), sizes, (rows, size) => {
        expectSame(onBothTargets(apart(rows), { preset, ...configOf(size) }, "skip"));
      }),
      runs,
    );
  },
);

test.each(presets)(
  "%s: with outputs of any length, the simulator makes the decisions of target cache with generation by step",
  (_name, preset) => {
    fc.assert(
      fc.property(workloads(), sizes, (rows, size) => {
        expectSame(onBothTargets(apart(rows), { preset, ...configOf(size) }, "step"));
      }),
      runs,
    );
  },
);

test("the simulator makes the decisions of target cache for content-id traces and several namespaces", () => {
  const cases = fc.record({
    world: generatedWorkloads({ maxRequests: 20, namespaces: 2, related: true }),
    preset: fc.constantFrom(...presetRegistry.all),
    units: fc.integer({ min: 1, max: 3 }),
    blocks: fc.option(fc.integer({ min: 4, max: 20 }), { nil: undefined }),
    longer: fc.constantFrom(1, 7),
  });
  fc.assert(
    fc.property(cases, ({ world, preset, units, blocks, longer }) => {
      const [trace] = traceOf(world);
      const { arrivalNs, outputTokens, maxOutputTokens, unitTokens } = trace;
      // Without token ids, outputs may have any length.
      const times = unitTokens === 1 ? 1 : longer;
      const slow = {
        ...trace,
        arrivalNs: arrivalNs.map((at) => at * 1_000_000),
        outputTokens: outputTokens.map((count) => count * times),
        maxOutputTokens: maxOutputTokens.map((count) => count * times),
      };
      expectSame(onBothTargets(slow, { preset, blocks, blockTokens: units * unitTokens }, "step"));
    }),
    { numRuns: 300 },
  );
});

test.each(evictions)("under %s, the simulator makes the decisions of target cache", (policy) => {
  fc.assert(
    fc.property(workloads(), sizes, fc.constantFrom("false", "true"), (rows, size, generated) => {
      const own = { policy, ...configOf(size), rules: { "cache-generated": generated } };
      expectSame(onBothTargets(apart(rows), own, "step"));
    }),
    runs,
  );
});

/** The hits, publications and evictions, each in their order, without block numbers. */
function contentsOf(lines: readonly string[]): Record<string, string[]> {
  const of = (kind: string) =>
    lines
      .map((line) => line.split(" "))
      .filter(([name]) => name === kind)
      .map(([, request, _block, key, value]) => `${request}: content ${key}, at ${value}`);
  return { hit: of("hit"), publish: of("publish"), evict: of("evict") };
}

// Target `cache` allocates all blocks of an output at once, a real step one block when it is needed: publications and evictions
// are interleaved in another order, and so are allocations of freed blocks. Two rules change more than the order: outputs that
// are not cached are allocated no blocks in target `cache`, so that they evict nothing; and where a new output block is replaced by
// a cached block of the same content while the output grows, it is free for the next one.
const atOnce = presets.filter(([, { index, rules: own }]) => {
  const { publish, duplicates } = resolveRules(index.defaults ?? {}, own);
  const isReplaced = publish !== "finish" && (duplicates === "swap" || duplicates === "share");
  return index.supports["cache-generated"] !== undefined && !isReplaced;
});

test.each(atOnce)(
  "%s: if outputs are cached and fit, target cache has the same hits, publications and evictions without generation by step",
  (_name, preset) => {
    const blocks = fc.option(fc.integer({ min: 50, max: 90 }), { nil: undefined });
    fc.assert(
      fc.property(workloads({ maxOutputTokens: 10 }), blocks, fc.constantFrom(1, 2, 4), (rows, tokens, blockTokens) => {
        const own = { preset, blockTokens, blocks: tokens && Math.ceil(tokens / blockTokens), scheduler: "naive" };
        const both = onBothTargets(apart(rows), { ...own, rules: { "cache-generated": "true" } }, "skip");
        expect(contentsOf(both.simulation.lines)).toEqual(contentsOf(both.replay.lines));
        expect(outcome(both.simulation.simulation, "hitTokens")).toEqual([...both.replay.requests.hitTokens]);
      }),
      runs,
    );
  },
);
