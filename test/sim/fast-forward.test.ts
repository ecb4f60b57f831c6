import fc from "fast-check";
import { expect, test } from "vitest";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { OperationsPlayer } from "../../lab/run/operations-file.ts";
import { workloads as generatedWorkloads, traceOf } from "../../laws/workloads.ts";
import { presetRegistry, routerRegistry, schedulerRegistry } from "../../policies/registry.ts";
import { simulate } from "../../sim/simulation.ts";
import {
  type Coefficients,
  costs,
  everythingOf,
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

const publish = ["allocation", "step", "chunk", "finish"] as const;

/** A run with repeated steps equals, byte for byte, a run that plans every step. */
function expectSame(rows: readonly Row[], coefficients: Coefficients, own: OwnSimulation): void {
  const run = (everyStep: boolean) =>
    everythingOf(simulated(rows, { events: true, ...own, cost: linearCost(coefficients), everyStep }));
  expect(run(false)).toEqual(run(true));
}

const clusters = fc.record({
  replicas: fc.integer({ min: 1, max: 4 }),
  router: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
  loop: fc.constantFrom("open" as const, "closed" as const),
  speed: fc.constantFrom(0.5, 1, 3),
  concurrency: fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined }),
});

const settings = fc.record({
  blockTokens: fc.oneof(fc.constantFrom(1, 2, 16, 64), fc.integer({ min: 3, max: 64 })),
  tokens: fc.oneof(fc.integer({ min: 60, max: 200 }), fc.constant(undefined)),
  hostBlocks: fc.constantFrom(0, 5, 1000),
  seed: fc.nat(100),
});

const blocksOf = ({ blockTokens, tokens }: { blockTokens: number; tokens: number | undefined }) =>
  tokens === undefined ? undefined : Math.max(1, Math.ceil(tokens / blockTokens));

test.each(schedulerRegistry.all.map(({ name }) => [name]))(
  "with scheduler %s, repeated steps are as if each had been planned",
  (scheduler) => {
    const rules = fc.record({
      publish: fc.constantFrom(...publish),
      reserve: fc.constantFrom("grow" as const, "worst-case" as const),
      "cache-generated": fc.constantFrom("false" as const, "true" as const),
    });
    fc.assert(
      fc.property(workloads(), costs, settings, clusters, rules, (rows, cost, setting, cluster, rules) => {
        const { loop, speed, concurrency, ...rest } = cluster;
        expectSame(rows, cost, {
          ...{ scheduler, rules, ...setting, ...rest, blocks: blocksOf(setting) },
          arrivals: { loop: concurrency === undefined ? loop : "open", speed, concurrency },
        });
      }),
      { numRuns: 60 },
    );
  },
);

test.each(presetRegistry.all.map((preset) => [preset.name, preset] as const))(
  "with preset %s, repeated steps are as if each had been planned",
  (_name, preset) => {
    const scheduler = fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name));
    fc.assert(
      fc.property(workloads(), costs, settings, scheduler, (rows, cost, setting, scheduler) => {
        expectSame(rows, cost, { preset, scheduler, ...setting, blocks: blocksOf(setting) });
      }),
      { numRuns: 40 },
    );
  },
);

test("repeated steps are as if each had been planned, for content-id traces and several namespaces", () => {
  const cases = fc.record({
    world: generatedWorkloads({ maxRequests: 20, namespaces: 2, related: true }),
    preset: fc.constantFrom(...presetRegistry.all),
    scheduler: fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
    units: fc.constantFrom(1, 4, 20),
    blocks: fc.option(fc.integer({ min: 8, max: 40 }), { nil: undefined }),
    longer: fc.constantFrom(1, 7, 30),
    gapNs: fc.constantFrom(0, 100, 10_000),
  });
  fc.assert(
    fc.property(cases, costs, ({ world, longer, gapNs, units, ...own }, cost) => {
      const [trace] = traceOf(world);
      const { arrivalNs, outputTokens, maxOutputTokens, unitTokens } = trace;
      // Without token ids, outputs may have any length.
      const times = unitTokens === 1 ? 1 : longer;
      const other = {
        ...trace,
        arrivalNs: arrivalNs.map((at) => at * gapNs),
        outputTokens: outputTokens.map((count) => count * times),
        maxOutputTokens: maxOutputTokens.map((count) => count * times),
      };
      const config = { ...own, blockTokens: units * unitTokens, events: true, cost: linearCost(cost) };
      const run = (everyStep: boolean) => everythingOf(simulate(other, simulationConfigOf({ ...config, everyStep })));
      expect(run(false)).toEqual(run(true));
    }),
    { numRuns: 300 },
  );
});

test("fuzz found: a request that waits for blocks is reconsidered in the step after a preemption", () => {
  const rows: Row[] = [
    { at: 0, prompt: 1, output: 16 },
    { at: 0, prompt: 1, output: 12 },
    { at: 0, prompt: 1, output: 9 },
  ];
  const own: OwnSimulation = {
    ...{ scheduler: "tgi-queue", schedulerOptions: { "max-batch-prefill-tokens": 3 }, blocks: 5, events: true },
    cost: linearCost({ fixed: 1 }),
  };
  const [atOnce, single] = [false, true].map((everyStep) => simulated(rows, { ...own, everyStep }));
  expect(single.replicas[0].cache.counters.preemptions).toBeGreaterThan(0);
  expect(everythingOf(atOnce)).toEqual(everythingOf(single));
});

test("fuzz found: a waiting request is reconsidered in the step after a swap-in, whose blocks may be hits", () => {
  const rows: Row[] = [
    { at: 0, prompt: 3, output: 12 },
    { at: 0, prompt: [1, 2, 3, 4], output: 9 },
    { at: 0, prompt: [1, 2, 3, 4], output: 6 },
    { at: 0, prompt: 1, output: 1 },
  ];
  const own: OwnSimulation = {
    ...{ scheduler: "fcfs", schedulerOptions: { swap: 1 }, rules: { publish: "step" }, blocks: 4, hostBlocks: 8 },
    ...{ cost: linearCost({ fixed: 1 }), events: true },
  };
  const [atOnce, single] = [false, true].map((everyStep) => simulated(rows, { ...own, everyStep }));
  expect(linesOf(single).some((line) => line.includes("swapIn"))).toBe(true);
  expect(everythingOf(atOnce)).toEqual(everythingOf(single));
});

test.each(["fcfs-chunked", "fcfs", "past-future"])(
  "fuzz found: a request that is too long for the cache and arrives when %s runs max-num-seqs is refused before the next step",
  (scheduler) => {
    const maxRunning = scheduler === "past-future" ? "running-max-req-size" : "max-num-seqs";
    const rows: Row[] = [
      { at: 0, prompt: 1, output: 14 },
      { at: 15, prompt: 17, output: 1 },
    ];
    const own: OwnSimulation = {
      ...{ scheduler, schedulerOptions: { [maxRunning]: 1 }, blockTokens: 16, blocks: 1, events: true },
      cost: linearCost({ fixed: 10 }),
    };
    const [atOnce, single] = [false, true].map((everyStep) => simulated(rows, { ...own, everyStep }));
    expect(outcome(single, "refused")).toEqual([0, 1]);
    expect(everythingOf(atOnce)).toEqual(everythingOf(single));
  },
);

test("fuzz found: a request is not delayed by one that was refused in the same plan", () => {
  // The first one's output outgrows the cache; the second one, which shares its blocks, then has the whole batch and token budget.
  const rows: Row[] = [
    { at: 0, prompt: [1, 1, 1, 1, 5, 6, 7, 8], output: 6 },
    { at: 0, prompt: [1, 1, 1], output: [1, 2, 3, 4, 5] },
    { at: 0, prompt: 1, output: 1 },
  ];
  const own: OwnSimulation = {
    ...{ scheduler: "fcfs", schedulerOptions: { "max-num-batched-tokens": 1 }, blocks: 3, events: true },
    rules: { "cache-generated": "true", "match-limit": "l-1" },
    cost: linearCost({ fixed: 1 }),
  };
  const [atOnce, single] = [false, true].map((everyStep) => simulated(rows, { ...own, everyStep }));
  expect(outcome(single, "refused")).toEqual([1, 0, 0]);
  expect(everythingOf(atOnce)).toEqual(everythingOf(single));
});

test("fuzz found: a cached prompt that is evicted for an output may be admitted again in chunks", () => {
  const rows: Row[] = [
    { at: 0, prompt: 21, output: 31 },
    { at: 1, prompt: 11, output: 23 },
  ];
  const own: OwnSimulation = {
    ...{ scheduler: "tgi-queue", schedulerOptions: { "max-batch-prefill-tokens": 9 }, index: "radix-tree", blocks: 18 },
    rules: { publish: "finish", "cache-generated": "true", "victim-unit": "node" },
    ...{ cost: linearCost({ fixed: 1 }), events: true },
  };
  const [atOnce, single] = [false, true].map((everyStep) => simulated(rows, { ...own, everyStep }));
  expect(single.replicas[0].cache.counters.evictedBlocks).toBeGreaterThan(0);
  expect(everythingOf(atOnce)).toEqual(everythingOf(single));
});

test("a request that waits for blocks is reconsidered in the step after an operator evicts blocks", () => {
  const rows: Row[] = [
    { at: 0, prompt: 17, output: 1 },
    { at: 15, prompt: 1, output: 14 },
    { at: 40, prompt: 33, output: 1 },
    { at: 68, prompt: 1, output: 1 },
  ];
  const [trace] = tracesOf(rows);
  const own: OwnSimulation = {
    ...{ scheduler: "tgi-queue", blockTokens: 16, blocks: 4, rules: { "pin-blocks": 1 }, events: true },
    cost: linearCost({ fixed: 10 }),
  };
  const run = (everyStep: boolean) => {
    const config = simulationConfigOf({ ...own, everyStep });
    const columns = blockKeysFor(config, 1).of(trace);
    const player = new OperationsPlayer(
      [
        { before: 1, operation: "pin", like: 0, tokens: 16, name: "first" },
        { before: 3, operation: "unpin", name: "first" },
      ],
      trace,
      columns,
    );
    const simulation = simulate(trace, { ...config, before: (...args) => player.before(...args) }, columns);
    expect(player.results.map(({ result }) => result)).toEqual(["pinned", "unpinned"]);
    return simulation;
  };
  const single = run(true);
  expect(outcome(single, "admittedNs")).toEqual([0, 15, 75, 95]);
  expect(everythingOf(run(false))).toEqual(everythingOf(single));
});

test("60 steps of a decode are repeated in a few events", () => {
  let notified = 0;
  const rows = [{ prompt: 5, output: 60 }];
  const simulation = simulated(rows, { blockTokens: 64, observers: [{ steps: () => notified++ }] });
  expect(simulation.replicas[0].stepCount).toBe(60);
  expect(notified).toBeLessThan(6);
});

test("the cost of a copy is in one step, not in the steps that repeat it", () => {
  // The second one uses the stored logits of the first one's prompt; its last block is copied before it is written to.
  const own: OwnSimulation = {
    ...{ preset: presetRegistry.get("roseinfer"), scheduler: "online", blockTokens: 64 },
    cost: linearCost({ fixed: 10, copiedBlocks: 1000 }),
  };
  const rows: Row[] = [
    { at: 0, prompt: [1, 2, 3], output: 30 },
    { at: 5, prompt: [1, 2, 3], output: 30 },
  ];
  const copied = 1000;
  for (const everyStep of [false, true]) {
    const simulation = simulated(rows, { ...own, everyStep });
    expect(simulation.replicas[0].cache.counters.copiedBlocks).toBe(1);
    expect(simulation.replicas[0].busyNs).toBe(10 * simulation.replicas[0].stepCount + copied);
  }
});

test("a replica repeats steps only until another replica's step may cause an arrival", () => {
  const rows: Row[] = [
    { at: 0, prompt: 4, output: 40 },
    { at: 0, prompt: 4, output: 4, session: 1 },
    { prompt: 4, output: 1, session: 1, thinkNs: 7 },
  ];
  const own: OwnSimulation = {
    ...{ scheduler: "fcfs-chunked", blockTokens: 64, replicas: 2, router: "round-robin", arrivals: { loop: "closed" } },
    cost: linearCost({ fixed: 10 }),
  };
  for (const everyStep of [false, true]) {
    const simulation = simulated(rows, { ...own, everyStep });
    // The second one ends at 40; its next turn is routed to the first replica, which starts a step every 10 ns.
    expect(outcome(simulation, "finishedNs")).toEqual([400, 40, 60]);
    expect(outcome(simulation, "admittedNs")).toEqual([0, 0, 50]);
  }
});
