import { describe, expect, test } from "vitest";
import type { RouterPlugin, SchedulerPlugin } from "../../core/plugins/index.ts";
import { createRouter } from "../../core/replica/compose.ts";
import { Metrics } from "../../core/serving/metrics.ts";
import { readTrace, type Trace } from "../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, routerRegistry } from "../../policies/registry.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { type Simulation, type SimulationConfig, simulate } from "../../sim/simulation.ts";
import { chatSource } from "../../traces/generators/chat.ts";
import { digestOf } from "../support/logs.ts";

/** Puts every sequence that fits into every step; refuses requests that can never fit. */
const greedy: SchedulerPlugin = {
  name: "greedy",
  about: "everything that fits",
  source: "this test",
  create: () => ({
    plan(context) {
      for (const each of [...context.running]) {
        if (!context.running.includes(each) || each.inStep) continue;
        while (!context.schedule(each)) {
          const last = context.running[context.running.length - 1];
          context.preempt(last, "recompute");
          if (last === each) break;
        }
      }
      for (let first = context.firstWaiting; first && !context.admit(first); first = context.firstWaiting) {
        if (context.running.length > 0) return;
        context.refuse(first, "too long");
      }
      if (context.firstWaiting) this.plan(context);
    },
  }),
};

/** A millisecond per step, and 20 µs per prefill token: 50,000 tokens/s. */
const cost: CostModel = { name: "test", stepNs: ({ prefillTokens }) => 1_000_000 + 20_000 * prefillTokens };

const blockTokens = 16;

const config: SimulationConfig = {
  index: indexRegistry.get("hash-table"),
  eviction: evictionRegistry.get("lru"),
  allocator: allocatorRegistry.get("block"),
  blockTokens,
  blocks: 1500,
  rules: {},
  seed: 1,
  scheduler: greedy,
  cost: () => cost,
  events: true,
};

const routerOf = (router: RouterPlugin, replicaCount: number) =>
  createRouter({ router, replicaCount, blockTokens, seed: 1 });

const clusterOf = (trace: Trace, replicas: number, router: RouterPlugin, own: Partial<SimulationConfig> = {}) =>
  simulate(trace, { ...config, replicas, router: routerOf(router, replicas), ...own });

const digestsOf = (simulation: Simulation) => simulation.replicas.map(({ log }) => digestOf(log!));

const hitRatioOf = (simulation: Simulation) => {
  const { replicas } = new Metrics(simulation).cluster();
  const sum = (metric: "hitTokens" | "lookupTokens") => replicas.reduce((total, each) => total + each[metric], 0);
  return sum("hitTokens") / sum("lookupTokens");
};

const chat = await readTrace(chatSource({ requests: 1500, sessionsPerS: 20, thinkS: 10 }));

/** For comparisons of whole logs. */
const few = await readTrace(chatSource({ requests: 250, sessionsPerS: 40, thinkS: 2, systemPrompts: 10 }));

describe.each(routerRegistry.all.map((router) => [router.name, router] as const))("with router %s", (_name, router) => {
  test("every request is served by the one of 64 replicas that it is routed to", () => {
    const ends = new Int32Array(chat.requestCount);
    const endedOn = new Int32Array(chat.requestCount);
    const simulation = clusterOf(chat, 64, router, {
      observers: [
        {
          ended: ({ request }, replica) => {
            ends[request.id]++;
            endedOn[request.id] = replica;
          },
        },
      ],
    });
    expect(simulation.done).toBe(chat.requestCount);
    expect(ends.every((count) => count === 1)).toBe(true);
    const [{ outcomes }] = simulation.arrivals.batches;
    expect(outcomes.replica).toEqual(endedOn);
    expect(Math.max(...outcomes.refused)).toBe(0);

    const requests = new Array<number>(64).fill(0);
    const hitTokens = new Array<number>(64).fill(0);
    for (const [row, replica] of outcomes.replica.entries()) {
      requests[replica]++;
      hitTokens[replica] += outcomes.hitTokens[row];
    }
    const { replicas } = new Metrics(simulation).cluster();
    expect(replicas.map((each) => each.requests)).toEqual(requests);
    expect(replicas.map((each) => each.hitTokens)).toEqual(hitTokens);
  });

  test("one replica makes the same decisions with and without a router", () => {
    const alone = simulate(few, { ...config, replicas: 1 });
    expect(digestsOf(clusterOf(few, 1, router))).toEqual(digestsOf(alone));
  });

  test("the same seed gives the same logs, also if every step is planned", () => {
    const logs = digestsOf(clusterOf(few, 4, router, { blocks: 300 }));
    expect(digestsOf(clusterOf(few, 4, router, { blocks: 300 }))).toEqual(logs);
    expect(digestsOf(clusterOf(few, 4, router, { blocks: 300, everyStep: true }))).toEqual(logs);
  });

  test("the router is notified once of the end of every request, with its replica", () => {
    const inner = routerOf(router, 4);
    const open = new Map<number, number>();
    simulate(chat, {
      ...config,
      replicas: 4,
      router: {
        route(request, replicas, now) {
          const to = inner.route(request, replicas, now);
          open.set(request.id, to);
          return to;
        },
        finished(request, replica, now) {
          expect(open.get(request.id)).toBe(replica);
          open.delete(request.id);
          inner.finished?.(request, replica, now);
        },
      },
    });
    expect(open.size).toBe(0);
  });
});

describe("on chat traffic over 8 replicas", () => {
  const of = (name: string) => clusterOf(chat, 8, routerRegistry.get(name));
  const roundRobin = hitRatioOf(of("round-robin"));

  test.each(["prefix-affinity", "session-affinity", "dynamo-kv", "consistent-hash"])(
    "%s has a higher hit ratio than round robin",
    (name) => {
      expect(hitRatioOf(of(name))).toBeGreaterThan(1.2 * roundRobin);
    },
  );

  test("prefix-affinity caches fewer copies than round robin", () => {
    const duplicated = (name: string) => new Metrics(of(name)).cluster().duplicated;
    expect(duplicated("prefix-affinity")).toBeLessThan(duplicated("round-robin"));
  });

  test("round robin routes equally many requests to every replica", () => {
    const { replicas } = new Metrics(of("round-robin")).cluster();
    for (const { requests } of replicas) expect(Math.abs(requests - chat.requestCount / 8)).toBeLessThanOrEqual(1);
  });
});

test.each([8, -1, 0.5, Number.NaN])("a router that chooses replica %d of 8 is refused", (to) => {
  expect(() => simulate(chat, { ...config, replicas: 8, router: { route: () => to } })).toThrow(
    `the router chose replica ${to} of 8`,
  );
});
