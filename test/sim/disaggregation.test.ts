import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EventKind } from "../../core/log/events.ts";
import { createRouter } from "../../core/replica/compose.ts";
import type { DisaggregationConfig } from "../../core/serving/disaggregation.ts";
import { routerRegistry } from "../../policies/registry.ts";
import type { Simulation } from "../../sim/simulation.ts";
import {
  costs,
  everythingOf,
  linearCost,
  linesOf,
  type OwnSimulation,
  outcome,
  type Row,
  settings,
  simulated,
  simulatedInBatches,
  workloads,
} from "../support/simulated.ts";

/** A byte per token and ns. */
const link = { bytesPerS: 1e9, latencyNs: 0 };
const kvBytes = (tokens: number) => tokens;

const routerOf = (name: string, replicaCount: number) =>
  createRouter({ router: routerRegistry.get(name), replicaCount, blockTokens: 4, seed: 3 });

interface Pools {
  readonly prefill: number;
  readonly decode: number;
  readonly bytesPerS: number;
  readonly latencyNs: number;
  readonly router: string;
  readonly decodeRouter: string;
}

/** Routers have state: they are created anew for each run. */
const pooled = ({ prefill, decode, bytesPerS, latencyNs, decodeRouter }: Pools): OwnSimulation => ({
  replicas: prefill + decode,
  disaggregation: {
    prefillReplicas: prefill,
    decodeRouter: routerOf(decodeRouter, decode),
    link: { bytesPerS, latencyNs },
    kvBytes,
  },
});

const pools: fc.Arbitrary<Pools> = fc.record({
  prefill: fc.integer({ min: 1, max: 3 }),
  decode: fc.integer({ min: 1, max: 3 }),
  bytesPerS: fc.constantFrom(1e7, 1e9, 1e12),
  latencyNs: fc.constantFrom(0, 7, 500),
  router: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
  decodeRouter: fc.constantFrom(...routerRegistry.all.map(({ name }) => name)),
});

const allSettings: fc.Arbitrary<OwnSimulation> = fc
  .record({
    own: settings,
    speculation: fc.option(fc.constant({ tokens: 3, acceptance: 0.6, seed: 2 }), { nil: undefined }),
    network: fc.option(fc.record({ clientNs: fc.nat(300), routerNs: fc.nat(90) }), { nil: undefined }),
  })
  .map(({ own, ...more }) => ({ ...own, ...more }));

function run(rows: readonly Row[], own: OwnSimulation, pool: Pools, more: OwnSimulation = {}): Simulation {
  const { prefill, router } = pool;
  return simulated(rows, { ...own, ...pooled(pool), ...more, ...(prefill > 1 && { router }) });
}

const two: DisaggregationConfig = { prefillReplicas: 1, link, kvBytes };

describe("worked", () => {
  test("the first token is of the prefill replica; the decode replica generates the others after the transfer", () => {
    const rows: Row[] = [{ at: 100, prompt: 8, output: 3 }];
    const simulation = simulated(rows, {
      ...{ cost: linearCost({ fixed: 10 }), replicas: 2, events: true, audit: true },
      disaggregation: { ...two, link: { bytesPerS: 1e9, latencyNs: 5 } },
    });
    // Prefill ends at 110; 8 tokens take 8 ns, and the link's latency is 5 ns; two decode steps.
    expect(outcome(simulation, "firstTokenNs")).toEqual([110]);
    expect(outcome(simulation, "finishedNs")).toEqual([143]);
    expect(simulation.transfers).toMatchObject({ tokens: [8], bytes: [8], startNs: [110], endNs: [123] });
    expect(linesOf(simulation, 0).filter((line) => /send|finish|step/.test(line))).toEqual([
      "110 step -1 -1 1 8",
      "110 send 0 -1 8 2",
      "123 finish 0 -1 1 -1",
    ]);
    expect(linesOf(simulation, 1).filter((line) => /receive|finish/.test(line))).toEqual([
      "123 receive 0 -1 8 2",
      "143 finish 0 -1 3 -1",
    ]);
    expect(simulation.replicas.map(({ stepCount }) => stepCount)).toEqual([1, 2]);
  });

  test("prefix-groups serves a sequence that was transferred and then preempted in its next batch", () => {
    const shapes = [
      ...[[0, 1, 6] as const, [0, 16, 9] as const, [0, 9, 1] as const],
      ...[[1, 3, 7] as const, [1, 28, 2] as const, [1, 1, 2] as const, [1, 8, 2] as const],
    ];
    const rows = shapes.map(
      ([at, prompt, output]): Row => ({
        ...{
          at,
          prompt: Array(prompt).fill(0),
          output: Array(output).fill(0),
          maxOutput: output,
          session: 0,
          priority: 0,
        },
      }),
    );
    const pool = { prefill: 3, decode: 2, bytesPerS: 1e7, latencyNs: 0, router: "vllm-dp", decodeRouter: "vllm-dp" };
    const perSequence = { sequences: 3, prefillSequences: 3, logits: 2, longestDecodeTokens: 3 };
    const cost = linearCost({ fixed: 82, ...perSequence, decodeWindowTokens: 1, prefillWindowPairs: 1 });
    const simulation = run(rows, { cost, scheduler: "prefix-groups", blocks: 15, events: true }, pool);
    const preempted = simulation.replicas.flatMap((_, replica) =>
      linesOf(simulation, replica).filter((line) => line.includes("preempt")),
    );
    expect(preempted).toHaveLength(1);
    expect(outcome(simulation, "finishedNs").every((ns) => ns > 0)).toBe(true);
  });

  test("only blocks that the decode replica's cache does not have are transferred", () => {
    const shared = [1, 2, 3, 4, 5, 6, 7, 8];
    const rows: Row[] = [
      { at: 0, prompt: [...shared, 9, 10], output: 2 },
      { at: 1000, prompt: [...shared, 11, 12, 13], output: 2 },
    ];
    const simulation = simulated(rows, { replicas: 2, disaggregation: two });
    expect(simulation.transfers).toMatchObject({ tokens: [10, 3], reusedTokens: [0, 8] });
    expect(outcome(simulation, "hitTokens")).toEqual([0, 8]);
  });

  test("transfers over one link are served one after the other", () => {
    const rows: Row[] = [
      { at: 0, prompt: 40, output: 2 },
      { at: 0, prompt: 30, output: 2 },
    ];
    const simulation = simulated(rows, {
      ...{ scheduler: "fcfs-chunked", replicas: 2, cost: linearCost({ fixed: 10 }), disaggregation: two },
    });
    expect(simulation.transfers).toMatchObject({ queuedNs: [10, 10], startNs: [10, 50], endNs: [50, 80] });
  });

  test("a request with one output token is not transferred", () => {
    const simulation = simulated([{ prompt: 8, output: 1 }], { replicas: 2, disaggregation: two });
    expect(simulation.transfers?.request).toEqual([]);
    expect(outcome(simulation, "finishedNs")).toEqual([1]);
  });

  test("the prefill replica releases blocks only when they have been transferred", () => {
    // The second prompt does not fit beside the first one, whose transfer takes 1 s.
    const rows: Row[] = [
      { at: 0, prompt: 16, output: 2 },
      { at: 1, prompt: 16, output: 2 },
    ];
    const simulation = simulated(rows, {
      ...{ scheduler: "fcfs-chunked", blocks: 5, replicas: 2, cost: linearCost({ fixed: 10 }), audit: true },
      disaggregation: { ...two, link: { bytesPerS: 16, latencyNs: 0 } },
    });
    expect(outcome(simulation, "refused")).toEqual([0, 0]);
    expect(outcome(simulation, "admittedNs")).toEqual([0, 10 + 1e9]);
  });
});

describe("laws", () => {
  test("every request ends once, all tokens are generated, and no block stays referenced", () => {
    let transferred = 0;
    fc.assert(
      fc.property(workloads(), costs, allSettings, pools, (rows, cost, own, pool) => {
        const ends = rows.map(() => 0);
        const tokens = rows.map(() => 0);
        const simulation = run(rows, own, pool, {
          ...{ cost: linearCost(cost), audit: true },
          observers: [
            {
              ended: ({ request: { id }, generatedTokens }) => {
                ends[id]++;
                tokens[id] = generatedTokens;
              },
            },
          ],
        });
        expect(ends.every((count) => count === 1)).toBe(true);
        expect(simulation.done).toBe(rows.length);
        const refused = outcome(simulation, "refused");
        outcome(simulation, "outputTokens").forEach((count, id) => {
          if (refused[id] === 0) expect(tokens[id]).toBe(count);
        });
        refused.forEach((isRefused, id) => {
          // A request is refused only if it does not fit into an empty cache.
          const { blockTokens = 4, blocks = 0 } = own;
          const most = outcome(simulation, "inputTokens")[id] + (rows[id].maxOutput ?? 0);
          if (isRefused === 1) expect(Math.ceil(most / blockTokens)).toBeGreaterThan(blocks);
        });
        for (const { cache, replica } of simulation.replicas) {
          expect(cache.referencedBlocks).toBe(0);
          expect(replica.isIdle).toBe(true);
        }
        transferred += simulation.transfers!.request.length;
      }),
      { numRuns: 500 },
    );
    expect(transferred).toBeGreaterThan(2000);
  });

  test("the transfers can be recounted from the logs: what is sent is received, and links are used one transfer at a time", () => {
    fc.assert(
      fc.property(workloads(), costs, allSettings, pools, (rows, cost, own, pool) => {
        const simulation = run(rows, own, pool, { cost: linearCost(cost) });
        const sent = new Map<number, { replica: number; tokens: number; atNs: number }>();
        const intervals = new Map<number, [from: number, to: number][]>();
        const readAll = (
          kind: number,
          read: (replica: number, request: number, tokens: number, atNs: number) => void,
        ) =>
          simulation.replicas.forEach(({ log, number }) => {
            const columns = log!.columns();
            columns.kind.forEach((each, at) => {
              if (each === kind) read(number, columns.request[at], columns.key[at], columns.timeNs[at]);
            });
          });
        readAll(EventKind.send, (replica, request, tokens, atNs) => {
          expect(replica).toBeLessThan(pool.prefill);
          expect(sent.has(request)).toBe(false);
          sent.set(request, { replica, tokens, atNs });
        });
        const { inputTokens } = { inputTokens: outcome(simulation, "inputTokens") };
        readAll(EventKind.receive, (replica, request, tokens, atNs) => {
          expect(replica).toBeGreaterThanOrEqual(pool.prefill);
          const begin = sent.get(request)!;
          expect(begin.tokens).toBe(tokens);
          expect(tokens).toBeLessThanOrEqual(inputTokens[request]);
          const sentNs = begin.atNs + Math.ceil((kvBytes(tokens) / pool.bytesPerS) * 1e9);
          expect(atNs).toBe(sentNs + pool.latencyNs);
          for (const each of [begin.replica, replica])
            intervals.set(each, [...(intervals.get(each) ?? []), [begin.atNs, sentNs]]);
          sent.delete(request);
        });
        expect(sent.size).toBe(0);
        for (const used of intervals.values()) {
          used.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
          for (let i = 1; i < used.length; i++) expect(used[i][0]).toBeGreaterThanOrEqual(used[i - 1][1]);
        }
      }),
      { numRuns: 200 },
    );
  });

  test("two runs are equal, also if every step is planned or requests are fed in batches", () => {
    fc.assert(
      fc.property(workloads(), costs, allSettings, pools, (rows, cost, own, pool) => {
        const config = { cost: linearCost(cost) };
        const once = everythingOf(run(rows, own, pool, config));
        expect(everythingOf(run(rows, own, pool, config))).toEqual(once);
        expect(everythingOf(run(rows, own, pool, { ...config, everyStep: true }))).toEqual(once);
        const { prefill, router } = pool;
        const again = { ...own, ...pooled(pool), ...config, ...(prefill > 1 && { router }) };
        expect(everythingOf(simulatedInBatches(rows, 7, again))).toEqual(once);
      }),
      { numRuns: 200 },
    );
  });

  test("prompts are computed on prefill replicas only, except after a preemption on a decode replica", () => {
    fc.assert(
      fc.property(workloads(), costs, allSettings, pools, (rows, cost, own, pool) => {
        let computed = 0;
        const simulation = run(rows, own, pool, {
          cost: linearCost(cost),
          observers: [
            {
              steps: ({ number }, { prefillTokens }) => {
                if (number >= pool.prefill) computed += prefillTokens;
              },
            },
          ],
        });
        const preemptions = simulation.replicas.slice(pool.prefill).map(({ cache }) => cache.counters.preemptions);
        if (preemptions.every((count) => count === 0)) expect(computed).toBe(0);
      }),
      { numRuns: 200 },
    );
  });
});
