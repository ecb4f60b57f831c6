import fc from "fast-check";
import { expect, test } from "vitest";
import { replayTrace } from "../../core/replay.ts";
import { evictionRegistry, presetRegistry, schedulerRegistry } from "../../policies/registry.ts";
import {
  linearCost,
  linesOf,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  simulationConfigOf,
  tracesOf,
  workloads,
} from "../support/simulated.ts";

/** So far apart that every request has ended when the next one comes. */
const apart = (rows: readonly Row[]): Row[] => rows.map((row, i) => ({ ...row, at: i * 1_000_000 }));
const withoutTime = (line: string) => line.slice(line.indexOf(" ") + 1);

/** What target `cache` decides, and what the simulator does. */
function bothWays(rows: readonly Row[], own: OwnSimulation, generation: "skip" | "step") {
  const config = { ...own, events: true, audit: true };
  const simulation = simulated(apart(rows), { ...config, cost: linearCost({ fixed: 3, prefillTokens: 2 }) });
  const { router, ...cacheConfig } = simulationConfigOf(config);
  const { log, requests, cache } = replayTrace(tracesOf(apart(rows))[0], { ...cacheConfig, generation });
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

function expectSame({ replay, simulation }: ReturnType<typeof bothWays>): void {
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

test.each(presets)("%s: with answers of one token, every decision is that of target cache", (_name, preset) => {
  fc.assert(
    fc.property(workloads({ answer: 1 }), sizes, (rows, size) => {
      expectSame(bothWays(rows, { preset, ...configOf(size) }, "skip"));
    }),
    runs,
  );
});

test.each(presets)("%s: so it is with any answers that target cache writes step by step", (_name, preset) => {
  fc.assert(
    fc.property(workloads(), sizes, (rows, size) => {
      expectSame(bothWays(rows, { preset, ...configOf(size) }, "step"));
    }),
    runs,
  );
});

test.each(evictions)("under %s, every decision is that of target cache", (policy) => {
  fc.assert(
    fc.property(workloads(), sizes, fc.constantFrom("false", "true"), (rows, size, generated) => {
      const own = { policy, ...configOf(size), rules: { "cache-generated": generated } };
      expectSame(bothWays(rows, own, "step"));
    }),
    runs,
  );
});
