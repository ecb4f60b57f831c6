import fc from "fast-check";
import { expect, test } from "vitest";
import type { StepObserver } from "../../core/serving/observers.ts";
import { presetRegistry, routerRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { Simulation } from "../../sim/simulation.ts";
import {
  costs,
  everythingOf,
  integralOf,
  linearCost,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  simulationConfigOf,
  totalOf,
  tracesOf,
  workloads,
} from "../support/simulated.ts";

const sum = (values: readonly number[]) => values.reduce((all, value) => all + value, 0);

const clusters: fc.Arbitrary<OwnSimulation> = fc
  .record({
    scheduler: fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
    preset: fc.option(fc.constantFrom(...presetRegistry.all), { nil: undefined }),
    blockTokens: fc.constantFrom(1, 4, 16),
    tokens: fc.oneof(fc.integer({ min: 30, max: 200 }), fc.constant(undefined)),
    hostBlocks: fc.constantFrom(0, 5, 1000),
    replicas: fc.integer({ min: 1, max: 4 }),
    router: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
    loop: fc.constantFrom("open" as const, "closed" as const),
    seed: fc.nat(100),
  })
  .map(({ tokens, loop, ...own }) => {
    const blocks = tokens === undefined ? undefined : Math.max(1, Math.ceil(tokens / own.blockTokens));
    return { ...own, blocks, arrivals: { loop } };
  });

/** Checks a law on runs of random workloads, costs and clusters. */
function law(
  check: (simulation: Simulation, rows: readonly Row[], own: OwnSimulation) => void,
  own: OwnSimulation = {},
) {
  fc.assert(
    fc.property(workloads(), costs, clusters, (rows, cost, cluster) => {
      const config = { ...cluster, ...own, cost: linearCost(cost) };
      check(simulated(rows, config), rows, config);
    }),
    { numRuns: 300 },
  );
}

/** Per request: whether it finished. */
const isFinished = (simulation: Simulation) => outcome(simulation, "refused").map((refused) => refused === 0);

test("no decision depends on an output length before that request has finished", () => {
  let compared = 0;
  fc.assert(
    fc.property(
      ...([workloads(), costs, clusters, fc.nat(), fc.integer({ min: 1, max: 30 })] as const),
      (drafts, cost, cluster, nth, more) => {
        const longer = nth % drafts.length;
        const lengthOf = ({ output }: Row) => (output as number[]).length;
        const rows = drafts.map((row, id) =>
          id === longer ? { ...row, maxOutput: Math.max(row.maxOutput!, lengthOf(row) + more) } : row,
        );
        const others = rows.map((row, id) =>
          id === longer ? { ...row, output: [...(row.output as number[]), ...Array(more).fill(0)] } : row,
        );
        const schedulerOptions = cluster.scheduler === "fcfs" ? { swap: 1 } : {};
        // Content ids are numbered by first appearance, outputs included: a longer output changes the hashes of later ids.
        const router = cluster.router === "consistent-hash" ? "round-robin" : cluster.router;
        const config = { ...cluster, router, schedulerOptions, cost: linearCost(cost) };
        const [shorter, other] = [simulated(rows, config), simulated(others, config)];
        const untilNs = outcome(shorter, "finishedNs")[longer];
        for (const name of ["arrivalNs", "admittedNs", "firstTokenNs", "finishedNs"] as const) {
          const before = (times: number[]) => times.map((ns) => (ns < untilNs ? ns : Number.POSITIVE_INFINITY));
          const expected = before(outcome(shorter, name));
          compared += expected.filter(Number.isFinite).length;
          expect(before(outcome(other, name))).toEqual(expected);
        }
      },
    ),
    { numRuns: 300 },
  );
  expect(compared).toBeGreaterThan(3000);
});

test("every request finishes or is refused with a reason, and its times are in order", () => {
  law((simulation, rows) => {
    const names = ["arrivalNs", "admittedNs", "firstTokenNs", "finishedNs"] as const;
    const [arrival, admitted, first, finished] = names.map((name) => outcome(simulation, name));
    isFinished(simulation).forEach((isFinished, id) => {
      // A refused request may not have been admitted, or have no output token.
      const times = [arrival[id], admitted[id], first[id], finished[id]].filter((time) => isFinished || time >= 0);
      expect(times).toEqual([...times].sort((a, b) => a - b));
      expect(arrival[id]).toBeGreaterThanOrEqual(0);
      expect(finished[id]).toBeGreaterThanOrEqual(arrival[id]);
      expect(finished[id]).toBeLessThanOrEqual(simulation.nowNs);
    });
    const reasons = simulation.replicas.flatMap(({ refusals }) => [...refusals]);
    expect(sum(reasons.map(([, count]) => count))).toBe(sum(outcome(simulation, "refused")));
    for (const [why] of reasons) expect(why).not.toBe("");
    expect(simulation.done).toBe(rows.length);
  });
});

test("prompt tokens are computed or hits, and generated tokens are the output tokens", () => {
  law((simulation) => {
    const finished = isFinished(simulation);
    const preemptions = outcome(simulation, "preemptions");
    // Recomputed tokens, and those of refused requests, are not in this sum.
    fc.pre(finished.every(Boolean) && preemptions.every((count) => count === 0));
    const input = sum(outcome(simulation, "inputTokens"));
    const output = sum(outcome(simulation, "outputTokens"));
    const hits = sum(outcome(simulation, "hitTokens"));
    const admitted = simulation.replicas.map(({ cache }) => cache.counters.hitTokens);
    expect(sum(admitted)).toBe(hits);
    expect(totalOf(simulation, "generatedTokens")).toBe(output);
    // Every output token but the last one is computed, and the last token of a prompt that is a full hit.
    const again = simulation.replicas[0].cache.rules["full-hit"] === "stored-logits" ? 0 : fullHits(simulation);
    expect(totalOf(simulation, "computedTokens")).toBe(input - hits + (output - finished.length) + again);
  });
});

const fullHits = (simulation: Simulation) => {
  const inputTokens = outcome(simulation, "inputTokens");
  return outcome(simulation, "hitTokens").filter((hits, id) => hits === inputTokens[id]).length;
};

test("a replica runs one step at a time, and its busy time is the sum of their durations", () => {
  const ends = new Map<number, number>();
  const busyNs = new Map<number, number>();
  const steps = new Map<number, number>();
  const add = (to: Map<number, number>, number: number, more: number) => to.set(number, (to.get(number) ?? 0) + more);
  const observer: StepObserver = {
    steps({ number }, _load, startNs, count, endsNs) {
      let from = startNs;
      expect(from).toBeGreaterThanOrEqual(ends.get(number) ?? 0);
      for (let i = 0; i < count; i++) {
        expect(endsNs[i]).toBeGreaterThan(from);
        from = endsNs[i];
      }
      ends.set(number, from);
      add(busyNs, number, from - startNs);
      add(steps, number, count);
    },
  };
  law(
    (simulation) => {
      for (const { number, ...replica } of simulation.replicas) {
        expect(replica.busyNs).toBe(busyNs.get(number) ?? 0);
        expect(replica.stepCount).toBe(steps.get(number) ?? 0);
      }
      expect(integralOf(simulation, "busy")).toBe(sum([...busyNs.values()]));
      expect(totalOf(simulation, "steps")).toBe(sum([...steps.values()]));
      for (const map of [ends, busyNs, steps]) map.clear();
    },
    { observers: [observer] },
  );
});

test("Little's law: waiting and running requests, integrated over time, are the sum of all latencies", () => {
  law((simulation) => {
    const arrival = outcome(simulation, "arrivalNs");
    const latency = sum(outcome(simulation, "finishedNs").map((finished, id) => finished - arrival[id]));
    expect(integralOf(simulation, "waiting") + integralOf(simulation, "running")).toBe(latency);
  });
});

test("at any time every block is free, private, idle or referenced", () => {
  law((simulation, _rows, { blocks }) => {
    const names = ["freeBlocks", "privateBlocks", "idleBlocks", "heldBlocks"] as const;
    for (const name of names) expect(Math.min(...simulation.series.levels[name])).toBeGreaterThanOrEqual(0);
    if (blocks === undefined) return;
    const integral = sum(names.map((name) => integralOf(simulation, name)));
    const { replicas, nowNs, series } = simulation;
    expect(integral).toBe(blocks * replicas.length * (nowNs - series.startNs));
  });
});

/** The totals of the series equal those of the outcomes and counters. */
function expectTotals(simulation: Simulation): void {
  const { count } = simulation.arrivals;
  const counters = simulation.replicas.map(({ cache }) => cache.counters);
  const refused = sum(outcome(simulation, "refused"));
  expect(totalOf(simulation, "arrivals")).toBe(count);
  expect(totalOf(simulation, "refused")).toBe(refused);
  expect(totalOf(simulation, "finished")).toBe(count - refused);
  for (const name of ["lookupTokens", "hitTokens", "evictedBlocks", "preemptions"] as const)
    expect(totalOf(simulation, name)).toBe(sum(counters.map((each) => each[name])));
  expect(sum(outcome(simulation, "preemptions"))).toBe(sum(counters.map(({ preemptions }) => preemptions)));
  expect(sum(outcome(simulation, "hitBlocks"))).toBe(sum(counters.map(({ hitBlocks }) => hitBlocks)));
}

test("the totals of the series are those of the outcomes and of the counters", () => {
  law((simulation) => expectTotals(simulation));
});

test("the totals of the series are right in a run so long that its intervals are merged", () => {
  fc.assert(
    fc.property(workloads({ maxGapNs: 20_000_000_000 }), clusters, (rows, own) => {
      const simulation = simulated(rows, { ...own, cost: linearCost({ fixed: 70_000_001, prefillTokens: 1_234_567 }) });
      expectTotals(simulation);
      const arrival = outcome(simulation, "arrivalNs");
      const latency = sum(outcome(simulation, "finishedNs").map((finished, id) => finished - arrival[id]));
      expect(integralOf(simulation, "waiting") + integralOf(simulation, "running")).toBe(latency);
      const { startNs, intervalNs, count } = simulation.series;
      expect(count).toBe(Math.ceil((simulation.nowNs - startNs + 1) / intervalNs));
    }),
    { numRuns: 100 },
  );
});

test("every invariant holds after every plan and every commit", () => {
  law(() => {}, { audit: true });
});

test("the same requests and seed give the same run, byte for byte", () => {
  fc.assert(
    fc.property(workloads(), costs, clusters, (rows, cost, own) => {
      const run = () => everythingOf(simulated(rows, { ...own, events: true, cost: linearCost(cost) }));
      expect(run()).toEqual(run());
    }),
    { numRuns: 50 },
  );
});

test("simulations that run interleaved do not affect each other", () => {
  fc.assert(
    fc.property(workloads(), clusters, workloads(), clusters, (rows, own, others, other) => {
      const alone = everythingOf(simulated(rows, { ...own, events: true }));
      const both = [
        new Simulation(simulationConfigOf(other)),
        new Simulation(simulationConfigOf({ ...own, events: true })),
      ];
      both.forEach((simulation, i) => {
        simulation.feed(tracesOf(i === 0 ? others : rows)[0]);
        simulation.end();
      });
      while (both.map((simulation) => simulation.run(1)).includes(true));
      expect(everythingOf(both[1])).toEqual(alone);
    }),
    { numRuns: 50 },
  );
});
