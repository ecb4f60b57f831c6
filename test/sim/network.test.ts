import fc from "fast-check";
import { expect, test } from "vitest";
import { Metrics } from "../../core/serving/metrics.ts";
import { routerRegistry, schedulerRegistry } from "../../policies/registry.ts";
import {
  costs,
  everythingOf,
  linearCost,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  simulatedInBatches,
  workloads,
} from "../support/simulated.ts";

const clusters: fc.Arbitrary<OwnSimulation> = fc
  .record({
    scheduler: fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
    blockTokens: fc.constantFrom(1, 4, 16),
    tokens: fc.integer({ min: 100, max: 300 }),
    replicas: fc.integer({ min: 1, max: 3 }),
    router: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
    loop: fc.constantFrom("open" as const, "closed" as const),
  })
  .map(({ tokens, loop, ...own }) => ({
    ...own,
    blocks: Math.ceil(tokens / own.blockTokens),
    arrivals: { loop },
    events: true,
  }));

const roundTrips = fc.record({ clientNs: fc.nat(3000), routerNs: fc.nat(500) });

test("half of each round trip passes before the request is queued, the rest before the client has its tokens", () => {
  const rows: Row[] = [{ at: 100, prompt: 4, output: 3 }];
  const simulation = simulated(rows, { cost: linearCost({ fixed: 10 }), network: { clientNs: 21, routerNs: 7 } });
  // 10 ns to the router, 3 to the replica; three steps of 10 ns; 4 ns to the router, 11 to the client.
  expect(outcome(simulation, "arrivalNs")).toEqual([100]);
  expect(outcome(simulation, "admittedNs")).toEqual([113]);
  expect(outcome(simulation, "firstTokenNs")).toEqual([138]);
  expect(outcome(simulation, "finishedNs")).toEqual([158]);
  expect(simulation.nowNs).toBe(158);
  const { ttftMs, tpotMs } = new Metrics(simulation).latency();
  expect(ttftMs?.mean).toBeCloseTo(38e-6);
  expect(tpotMs?.mean).toBeCloseTo(10e-6);
});

test("with separate prefill replicas, the router sends a request to its decode replica when it has the first token", () => {
  const timesWith = (routerNs: number) => {
    const simulation = simulated([{ prompt: 4, output: 2 }], {
      cost: linearCost({ fixed: 10 }),
      ...{ replicas: 2, network: { clientNs: 0, routerNs } },
      disaggregation: { prefillReplicas: 1, link: { bytesPerS: 1e9, latencyNs: 0 }, kvBytes: (tokens) => tokens },
    });
    return [...outcome(simulation, "firstTokenNs"), ...outcome(simulation, "finishedNs")];
  };
  // A prefill step of 10 ns, a transfer of 4 ns, a decode step of 10 ns.
  expect(timesWith(0)).toEqual([10, 24]);
  // 10 ns each: to the prefill replica, back to the router, to the decode replica, back to the router.
  expect(timesWith(20)).toEqual([30, 64]);
});

test("the think time of a closed loop begins when the client has received the last token", () => {
  const rows: Row[] = [
    { at: 0, prompt: 4, output: 1, session: 1 },
    { prompt: 4, output: 1, session: 1, thinkNs: 50 },
  ];
  const own: OwnSimulation = { cost: linearCost({ fixed: 10 }), arrivals: { loop: "closed" } };
  const simulation = simulated(rows, { ...own, network: { clientNs: 20, routerNs: 4 } });
  expect(outcome(simulation, "finishedNs")[0]).toBe(34);
  expect(outcome(simulation, "arrivalNs")[1]).toBe(84);
});

test("policies read the time of arrival at the router, then at the replica", () => {
  const seen: number[] = [];
  const rows: Row[] = [{ at: 5, prompt: 4, output: 1 }];
  simulated(rows, {
    network: { clientNs: 20, routerNs: 4 },
    observers: [{ admitted: ({ request }) => seen.push(request.arrivalNs) }],
  });
  expect(seen).toEqual([17]);
});

test("round trips of 0 change nothing", () => {
  fc.assert(
    fc.property(workloads(), costs, clusters, (rows, cost, own) => {
      const config = { ...own, cost: linearCost(cost) };
      const network = { clientNs: 0, routerNs: 0 };
      expect(everythingOf(simulated(rows, { ...config, network }))).toEqual(everythingOf(simulated(rows, config)));
    }),
    { numRuns: 200 },
  );
});

test("with a network, repeated steps are as if each had been planned, and so are requests fed in batches", () => {
  fc.assert(
    fc.property(workloads(), costs, clusters, roundTrips, (rows, cost, own, network) => {
      const config = { ...own, cost: linearCost(cost), network };
      const once = everythingOf(simulated(rows, config));
      expect(everythingOf(simulated(rows, { ...config, everyStep: true }))).toEqual(once);
      expect(everythingOf(simulatedInBatches(rows, 7, config))).toEqual(once);
    }),
    { numRuns: 150 },
  );
});

test("every request ends once, at least one round trip after its arrival, and all tokens are generated", () => {
  fc.assert(
    fc.property(workloads(), costs, clusters, roundTrips, (rows, cost, own, network) => {
      const ends = rows.map(() => 0);
      let tokens = 0;
      const simulation = simulated(rows, {
        ...own,
        ...{ cost: linearCost(cost), network, audit: true },
        observers: [
          {
            ended: ({ request, generatedTokens }) => {
              ends[request.id]++;
              tokens += generatedTokens;
            },
          },
        ],
      });
      expect(ends.every((count) => count === 1)).toBe(true);
      expect(simulation.done).toBe(rows.length);
      const refused = outcome(simulation, "refused");
      const columns = (["arrivalNs", "firstTokenNs", "finishedNs", "outputTokens"] as const).map((name) =>
        outcome(simulation, name),
      );
      const [arrival, first, finished, output] = columns;
      const roundTripNs = network.clientNs + network.routerNs;
      refused.forEach((isRefused, id) => {
        expect(finished[id] - arrival[id]).toBeGreaterThanOrEqual(roundTripNs);
        expect(finished[id]).toBeLessThanOrEqual(simulation.nowNs);
        if (isRefused === 0) expect(first[id] - arrival[id]).toBeGreaterThan(roundTripNs);
      });
      if (refused.every((isRefused) => isRefused === 0)) expect(tokens).toBe(output.reduce((a, b) => a + b, 0));
      for (const { cache } of simulation.replicas) expect(cache.referencedBlocks).toBe(0);
    }),
    { numRuns: 150 },
  );
});
