import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StepTable } from "../../core/serving/step-table.ts";
import {
  costs,
  linearCost,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  workloads,
} from "../support/simulated.ts";

/** Replicas that step together, in turn chosen by a router. */
const together = (rows: readonly Row[], own: OwnSimulation = {}) => {
  const steps = new StepTable();
  const simulation = simulated(rows, {
    ...{ replicas: 2, router: "round-robin", scheduler: "fcfs-chunked", lockstep: true },
    observers: [steps],
    ...own,
  });
  return { simulation, steps };
};

describe("replicas that step together", () => {
  const cost = linearCost({ fixed: 10, prefillTokens: 1 });

  test("a step takes the time of the slowest replica, and a request that arrives during it waits for its end", () => {
    const rows = [
      { at: 0, prompt: 100, output: 2 },
      { at: 5, prompt: 20, output: 1 },
    ];
    const { simulation, steps } = together(rows, { cost });
    // 110 ns with the first prompt; the second step has a decode (10 ns) and, on the other replica, 20 tokens of prefill (30 ns).
    expect(outcome(simulation, "firstTokenNs")).toEqual([110, 140]);
    expect(outcome(simulation, "finishedNs")).toEqual([140, 140]);
    expect(steps.startNs).toEqual([0, 110, 110]);
    expect(outcome(together(rows, { cost, lockstep: false }).simulation, "finishedNs")).toEqual([120, 35]);
  });

  test("a cost model may compute a joint step from the loads of the replicas that have one", () => {
    const seen: number[][] = [];
    const joint = {
      ...cost,
      togetherNs: (loads: readonly { prefillTokens: number }[]) => {
        seen.push(loads.map(({ prefillTokens }) => prefillTokens));
        return 7;
      },
    };
    const { simulation } = together([{ prompt: 8 }, { prompt: 4 }, { at: 3, prompt: 2 }], { cost: joint });
    expect(seen).toEqual([[8, 4], [2]]);
    expect(outcome(simulation, "finishedNs")).toEqual([7, 7, 14]);
  });

  test("steps of several replicas have the same limits or do not overlap, and all requests are served", () => {
    fc.assert(
      fc.property(workloads(), costs, fc.integer({ min: 1, max: 4 }), (rows, coefficients, replicas) => {
        const { simulation, steps } = together(rows, { replicas, cost: linearCost(coefficients), audit: true });
        expect(simulation.done).toBe(rows.length);
        const ends = new Map(steps.startNs.map((start, i) => [start, start + steps.durationNs[i]]));
        steps.startNs.forEach((start, i) => {
          expect(ends.get(start)).toBe(start + steps.durationNs[i]);
        });
        const starts = [...ends.keys()].sort((a, b) => a - b);
        starts.slice(1).forEach((start, i) => {
          expect(start).toBeGreaterThanOrEqual(ends.get(starts[i])!);
        });
      }),
      { numRuns: 60 },
    );
  });

  test("one replica has the same times as without", () => {
    fc.assert(
      fc.property(workloads(), costs, (rows, coefficients) => {
        const own = { replicas: 1, router: undefined, cost: linearCost(coefficients) };
        const [one, alone] = [true, false].map((lockstep) => together(rows, { ...own, lockstep }).simulation);
        expect(outcome(one, "finishedNs")).toEqual(outcome(alone, "finishedNs"));
      }),
      { numRuns: 40 },
    );
  });
});
