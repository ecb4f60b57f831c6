import fc from "fast-check";
import { expect, test } from "vitest";
import { InputError } from "../../../core/errors.ts";
import type { SchedulerPlugin } from "../../../core/plugins/index.ts";
import { Arrivals } from "../../../core/serving/arrivals.ts";
import { routerRegistry, schedulerRegistry } from "../../../policies/registry.ts";
import {
  costs,
  everythingOf,
  linearCost,
  type OwnSimulation,
  outcome,
  type Row,
  simulated,
  simulatedInBatches,
  totalOf,
  workloads,
} from "../../support/simulated.ts";

const clusters = fc.record({
  scheduler: fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
  blocks: fc.option(fc.integer({ min: 5, max: 40 }), { nil: undefined }),
  replicas: fc.integer({ min: 1, max: 4 }),
  router: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
  seed: fc.nat(100),
});

/** The predecessor of a request: its parent, or the turn before it in its session. */
function before(rows: readonly Row[], id: number): number | undefined {
  const { parent, session } = rows[id];
  if (parent !== undefined && parent >= 0) return parent;
  if (!session) return undefined;
  const earlier = rows.slice(0, id).findLastIndex((row) => row.session === session);
  return earlier < 0 ? undefined : earlier;
}

test("in a closed loop a turn arrives its think time after the turn before it has finished or was refused", () => {
  let turns = 0;
  const parents = fc.array(fc.option(fc.nat(), { nil: -1 }), { minLength: 25, maxLength: 25 });
  fc.assert(
    fc.property(workloads(), parents, fc.boolean(), costs, clusters, (drafts, parents, named, cost, cluster) => {
      const rows = drafts.map((row, id) => (named ? { ...row, parent: id > 0 ? parents[id] % id : -1 } : row));
      const simulation = simulated(rows, { ...cluster, cost: linearCost(cost), arrivals: { loop: "closed" } });
      const finished = outcome(simulation, "finishedNs");
      const expected = rows.map(({ at, thinkNs }, id) => {
        const parent = before(rows, id);
        if (parent === undefined) return at;
        turns++;
        return finished[parent] + thinkNs!;
      });
      expect(outcome(simulation, "arrivalNs")).toEqual(expected);
    }),
    { numRuns: 200 },
  );
  expect(turns).toBeGreaterThan(500);
});

test("in an open loop every request arrives at its recorded time", () => {
  fc.assert(
    fc.property(workloads(), clusters, (rows, cluster) => {
      expect(outcome(simulated(rows, cluster), "arrivalNs")).toEqual(rows.map(({ at }) => at));
    }),
    { numRuns: 50 },
  );
});

test("speed divides the arrival and think times of both loops, to the nearest nanosecond", () => {
  const rows: Row[] = [
    { at: 10, prompt: 1, session: 1 },
    { at: 25, prompt: 1, session: 1, thinkNs: 9 },
    { at: 30, prompt: 1 },
  ];
  const run = (loop: "open" | "closed", speed: number) =>
    outcome(simulated(rows, { arrivals: { loop, speed }, cost: linearCost({ fixed: 7 }) }), "arrivalNs");
  expect(run("open", 2)).toEqual([5, 13, 15]);
  // The first turn ends at 12, whatever the speed; its think time is halved, 4.5 to 5.
  expect(run("closed", 2)).toEqual([5, 17, 15]);
  expect(run("open", 0.5)).toEqual([20, 50, 60]);
  expect(run("closed", 0.5)).toEqual([20, 45, 60]);
});

test("a run at speed 2 equals a run of the trace with half the times", () => {
  const aging = { "aging-tokens-per-s": 1e9 };
  fc.assert(
    fc.property(workloads(), clusters, costs, (drafts, cluster, cost) => {
      const faster = drafts.map((row) => ({ ...row, at: row.at! * 2 }));
      const schedulerOptions = cluster.scheduler === "shortest-prefill-first" ? aging : {};
      const own: OwnSimulation = { ...cluster, schedulerOptions, events: true, cost: linearCost(cost) };
      const halved = everythingOf(simulated(drafts, own));
      expect(everythingOf(simulated(faster, { ...own, arrivals: { speed: 2 } }))).toEqual(halved);
    }),
    { numRuns: 300 },
  );
});

test("in a closed loop schedulers read the arrival time of the run, not the recorded one", () => {
  const arrived = new Map<number, number>();
  const scheduler: SchedulerPlugin = {
    ...schedulerRegistry.get("naive"),
    create: (given) => ({
      ...schedulerRegistry.get("naive").create(given),
      plan(context) {
        for (let each = context.firstWaiting; each; each = each.next)
          arrived.set(each.request.id, each.request.arrivalNs);
        if (context.running.length > 0) context.schedule(context.running[0]);
        else if (context.firstWaiting) context.admit(context.firstWaiting);
      },
    }),
  };
  const rows: Row[] = [
    { at: 10, prompt: 1, session: 1 },
    { at: 11, prompt: 1, session: 1, thinkNs: 9 },
  ];
  simulated(rows, { scheduler, arrivals: { loop: "closed" }, cost: linearCost({ fixed: 7 }) });
  expect([...arrived]).toEqual([
    [0, 10],
    [1, 26],
  ]);
});

test("a trace that is fed batch by batch gives the same run as one that is fed whole", () => {
  fc.assert(
    fc.property(
      workloads(),
      fc.integer({ min: 1, max: 6 }),
      fc.constantFrom("open" as const, "closed" as const),
      clusters,
      costs,
      (rows, batchOf, loop, cluster, cost) => {
        const own: OwnSimulation = { ...cluster, events: true, arrivals: { loop }, cost: linearCost(cost) };
        expect(everythingOf(simulatedInBatches(rows, batchOf, own))).toEqual(everythingOf(simulated(rows, own)));
      },
    ),
    { numRuns: 200 },
  );
});

test("a batch whose requests have ended keeps only their outcomes", () => {
  const rows = Array.from({ length: 40 }, (_, i): Row => ({ at: 100 * i, prompt: 3, output: 2 }));
  const alone = simulatedInBatches(rows, 10);
  expect(alone.arrivals.batches.map(({ firstId }) => firstId)).toEqual([0, 10, 20, 30]);
  expect(alone.arrivals.batches.map(({ columns }) => columns)).toEqual([undefined, undefined, undefined, undefined]);
  expect(() => alone.arrivals.batches[0].trace).toThrow("a batch has ended");
  expect(outcome(alone, "finishedNs")).toEqual(rows.map(({ at }) => at! + 2));
  // With several replicas the contents are kept: the share of copies in the caches is found with them.
  const several = simulatedInBatches(rows, 10, { replicas: 2, router: "random" });
  expect(several.arrivals.batches.every(({ columns }) => columns !== undefined)).toBe(true);
});

test("metrics leave out the warm-up requests and no others", () => {
  const refusing = fc.integer({ min: 5, max: 12 });
  fc.assert(
    fc.property(workloads(), fc.nat(), clusters, refusing, fc.boolean(), (rows, n, cluster, blocks, closed) => {
      const warmup = n % rows.length;
      const own: OwnSimulation = { ...cluster, blocks, warmup, arrivals: { loop: closed ? "closed" : "open" } };
      const simulation = simulated(rows, { ...own, cost: linearCost({ fixed: 900 }) });
      const sum = (values: number[]) => values.slice(warmup).reduce((all, value) => all + value, 0);
      const counted = (
        name: "lookups" | "lookupTokens" | "hitTokens" | "hitBlocks" | "refusedRequests" | "preemptions",
      ) => simulation.replicas.reduce((all, { cache: { counters } }) => all + counters[name], 0);
      expect(counted("lookups")).toBe(rows.length - warmup);
      expect(counted("lookupTokens")).toBe(sum(outcome(simulation, "inputTokens")));
      expect(counted("hitTokens")).toBe(sum(outcome(simulation, "hitTokens")));
      expect(counted("hitBlocks")).toBe(sum(outcome(simulation, "hitBlocks")));
      expect(counted("refusedRequests")).toBe(sum(outcome(simulation, "refused")));
      expect(counted("preemptions")).toBe(sum(outcome(simulation, "preemptions")));
      // The series has the lookups and preemptions of the metrics.
      expect(totalOf(simulation, "lookupTokens")).toBe(counted("lookupTokens"));
      expect(totalOf(simulation, "hitTokens")).toBe(counted("hitTokens"));
      expect(totalOf(simulation, "preemptions")).toBe(counted("preemptions"));
      // It begins when the first measured request arrives.
      const arrivals = outcome(simulation, "arrivalNs");
      expect(simulation.series.startNs).toBe(Math.min(...arrivals.slice(warmup)));
      if (!closed) expect(totalOf(simulation, "arrivals")).toBe(rows.length - warmup);
      const ended = outcome(simulation, "finishedNs").filter((endNs) => endNs > simulation.series.startNs).length;
      expect(totalOf(simulation, "finished") + totalOf(simulation, "refused")).toBeGreaterThanOrEqual(ended);
    }),
    { numRuns: 200 },
  );
});

test("invalid arrivals are refused with one line", () => {
  const closed: OwnSimulation = { arrivals: { loop: "closed" } };
  const first: Row = { prompt: 1, session: 1 };
  const cases: [() => unknown, string][] = [
    [
      () => simulated([first, { prompt: 1, parent: 1 }], closed),
      "request 1 continues request 1, expected an earlier one",
    ],
    [() => simulated([{ prompt: 1, parent: 4 }], closed), "request 0 continues request 4, expected an earlier one"],
    [
      () => simulated([first, { ...first, thinkNs: -3 }], closed),
      "request 1 has a think time of -3 ns, expected 0 or more",
    ],
    [() => new Arrivals({ speed: 0 }), "speed is 0, expected a number above 0"],
    [() => new Arrivals({ speed: Number.NaN }), "speed is NaN, expected a number above 0"],
    [() => simulated([first], { warmup: 1 }), "--warmup is 1, the trace has only 1 requests"],
  ];
  for (const [run, message] of cases) expect(run).toThrow(new InputError(message));
});

test("with a concurrency, the next request arrives when one has finished or was refused", () => {
  const concurrencies = fc.integer({ min: 1, max: 12 });
  fc.assert(
    fc.property(workloads(), concurrencies, costs, clusters, (rows, concurrency, cost, cluster) => {
      const own: OwnSimulation = { ...cluster, cost: linearCost(cost), arrivals: { concurrency } };
      const simulation = simulated(rows, own);
      const arrivals = outcome(simulation, "arrivalNs");
      const ends = [...outcome(simulation, "finishedNs")].sort((a, b) => a - b);
      // Requests arrive in the order of the trace, each at the earliest end that leaves a place for it.
      expect(arrivals).toEqual(rows.map((_, id) => (id < concurrency ? 0 : ends[id - concurrency])));
      expect(everythingOf(simulatedInBatches(rows, 3, own))).toEqual(everythingOf(simulation));
    }),
    { numRuns: 200 },
  );
});
