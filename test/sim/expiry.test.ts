import fc from "fast-check";
import { expect, test } from "vitest";
import { evictionWith } from "../../core/replica/compose.ts";
import { evictionRegistry, routerRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { simulate } from "../../sim/simulation.ts";
import {
  costs,
  everythingOf,
  integralOf,
  linearCost,
  linesOf,
  type OwnSimulation,
  type Row,
  simulationConfigOf,
  tracesOf,
  workloads,
} from "../support/simulated.ts";

// Entries that expire in virtual time, also while no request is served.

const simulatedWithTtl = (rows: readonly Row[], ttlNs: number, own: OwnSimulation) =>
  simulate(tracesOf(rows)[0], {
    ...simulationConfigOf(own),
    eviction: evictionWith(evictionRegistry.get("ttl"), { "ttl-s": ttlNs / 1e9 }),
  });

test("expired blocks are free in the time series from the time at which they expire", () => {
  const rows = [
    { at: 0, prompt: 8 },
    { at: 1000, prompt: 8 },
  ];
  // A step takes 10 ns: two blocks are released at 10 ns and expire at 110 ns, and two at 1,010 ns, which is the end.
  const simulation = simulatedWithTtl(rows, 100, { blocks: 10, cost: linearCost({ fixed: 10 }), events: true });
  expect(integralOf(simulation, "idleBlocks")).toBe(2 * 100);
  const drops = linesOf(simulation).filter((line) => line.includes(" drop "));
  expect(drops.map((line) => line.split(" ").slice(0, 3))).toEqual([
    ["110", "drop", "-1"],
    ["110", "drop", "-1"],
  ]);
  expect(simulation.replicas[0].cache.counters.expiredBlocks).toBe(2);
});

test("a request hits a block that has not expired, at the time of expiry it does not", () => {
  const prompt = [1, 2, 3, 4, 5];
  const hitsAfter = (at: number) => {
    const rows = [
      { at: 0, prompt },
      { at, prompt },
    ];
    const simulation = simulatedWithTtl(rows, 100, { blocks: 10, cost: linearCost({ fixed: 10 }) });
    return simulation.replicas[0].cache.counters.hitBlocks;
  };
  expect([109, 110].map(hitsAfter)).toEqual([1, 0]);
});

test("with entries that expire, repeated steps are as if each had been planned", () => {
  fc.assert(
    fc.property(
      workloads(),
      costs,
      fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
      fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
      fc.record({ replicas: fc.integer({ min: 1, max: 3 }), blocks: fc.integer({ min: 30, max: 60 }) }),
      fc.integer({ min: 1, max: 3000 }),
      (rows, cost, scheduler, router, sizes, ttlNs) => {
        const run = (everyStep: boolean) =>
          everythingOf(
            simulatedWithTtl(rows, ttlNs, {
              ...{ ...sizes, scheduler, router, everyStep, events: true, cost: linearCost(cost) },
            }),
          );
        expect(run(false)).toEqual(run(true));
      },
    ),
    { numRuns: 60 },
  );
});
