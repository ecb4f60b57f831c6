import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createRouter } from "../../../core/replica/compose.ts";
import { CacheReplay } from "../../../core/replica/replay.ts";
import { StepTable } from "../../../core/serving/step-table.ts";
import type { TimeSeries } from "../../../core/serving/time-series.ts";
import { readTrace } from "../../../core/trace/trace.ts";
import { writeSeries } from "../../../lab/output/parquet.ts";
import { RunTables } from "../../../lab/output/run-tables.ts";
import { inMemory } from "../../../lab/run/block-stream.ts";
import { simulateInThreads } from "../../../lab/run/cluster-threads.ts";
import { partsNamed, type RunConfig } from "../../../lab/run/configuration.ts";
import { runReplay } from "../../../lab/run/run.ts";
import { discarded } from "../../../lab/run/run-sink.ts";
import { servedMetrics, servedResult } from "../../../lab/run/served-result.ts";
import { simulatedFrom } from "../../../lab/run/simulation.ts";
import { dividedReplicas, mergedParts, repeating, routesOf, simulatePart } from "../../../lab/run/split-cluster.ts";
import { mergedSteps } from "../../../lab/run/step-calls.ts";
import { routerRegistry } from "../../../policies/registry.ts";
import { Simulation, simulate } from "../../../sim/simulation.ts";
import { chatSource } from "../../../traces/generators/chat.ts";
import {
  costs,
  linearCost,
  linesOf,
  settings,
  simulationConfigOf,
  tracesOf,
  workloads,
} from "../../support/simulated.ts";

type ColumnsOf = { readonly [Name in keyof StepTable as StepTable[Name] extends number[] ? Name : never]: number[] };

/** Routers that do not read the replicas. */
const routers = [
  ["round-robin", {}],
  ["random", {}],
  ["consistent-hash", { "mean-load-factor": 0 }],
] as const;

describe("a cluster divided by replicas", () => {
  test("has the metrics and the event logs of one run, for every scheduler, preset and router without state", async () => {
    let divided = 0;
    await fc.assert(
      fc.asyncProperty(
        ...[workloads(), settings, costs, fc.constantFrom(...routers), fc.integer({ min: 2, max: 4 }), fc.nat(3)],
        async (rows, setting, coefficients, [name, routerOptions], replicas, seed) => {
          const [trace] = tracesOf(rows);
          const own = { ...setting, replicas, seed, arrivals: {}, cost: linearCost(coefficients) };
          const config = simulationConfigOf(own);
          const { blockTokens } = config;
          const router = () =>
            createRouter({
              router: routerRegistry.get(name),
              routerOptions,
              replicaCount: replicas,
              blockTokens,
              seed,
            });
          const columns = CacheReplay.blockKeys(config, trace);
          const steps = new StepTable();
          const whole = simulate(trace, { ...config, router: router(), observers: [steps] }, columns);
          const batches = [{ trace, blocks: columns }];
          const routes = routesOf(router(), batches, { replicaCount: replicas, speed: 1 });
          // A prompt without a full block goes to the least loaded replica.
          if (routes === undefined) {
            expect(name).toBe("consistent-hash");
            return;
          }
          const known = { ...config, router: repeating(routes) };
          for (const part of dividedReplicas(replicas, 2)) {
            const simulation = new Simulation({ ...known, serves: (replica) => part.includes(replica) });
            simulation.feed(trace, columns);
            simulation.end();
            simulation.run();
            const expires = simulation.replicas.some(({ cache }) => cache.nextExpiry < Number.POSITIVE_INFINITY);
            for (const replica of part)
              if (!expires) expect(linesOf(simulation, replica)).toEqual(linesOf(whole, replica));
          }
          const parts = [];
          for (const part of dividedReplicas(replicas, 2))
            parts.push((await simulatePart(batches, known, { own: part, keepSteps: true, advance: () => {} }))!);
          if (parts.some(({ expires }) => expires)) return;
          divided++;
          const { run, copies, outcomes } = mergedParts(parts, routes);
          const options = { steps: undefined, slo: { ttftMs: 0.001 }, warmup: 0 };
          const { requests, series, logs: ___, ...expected } = servedResult(whole, options);
          const { requests: ____, series: merged, logs: ______, ...found } = servedMetrics(run, { ...options, copies });
          expect(found).toEqual(expected);
          expect(outcomes).toEqual([requests]);
          expect(merged.isExact).toBe(true);
          expect(merged.data).toEqual(series.data);
          const table = new StepTable();
          for (const some of mergedSteps(parts.map(({ steps: calls }) => calls!)))
            for (const [name, column] of Object.entries(some)) table[name as keyof ColumnsOf].push(...column);
          expect(table).toEqual(steps);
        },
      ),
    );
    expect(divided).toBeGreaterThan(20);
  });

  test("matches no prompt on a replica that never saw so many contents", async () => {
    const [trace] = tracesOf([{ prompt: 5 }, { prompt: 200_000 }, { at: 9, prompt: 5 }]);
    const config = simulationConfigOf({ replicas: 2, blockTokens: 1 });
    const blocks = CacheReplay.blockKeys(config, trace);
    const routes = [Uint32Array.of(0, 1, 0)];
    const part = await simulatePart(
      [{ trace, blocks }],
      { ...config, router: repeating(routes) },
      { own: [0], keepSteps: false, advance: () => {} },
    );
    expect(part!.replicas.map(({ counters }) => counters.lookups)).toEqual([2]);
  });

  test("ends early if it has more steps than are recorded", async () => {
    const [trace] = tracesOf([{ prompt: 5 }, { at: 9, prompt: 5 }]);
    const config = { ...simulationConfigOf({ replicas: 2 }), router: repeating([Uint32Array.of(0, 1)]) };
    const batches = [{ trace, blocks: CacheReplay.blockKeys(config, trace) }];
    const part = { own: [0], keepSteps: true, advance: () => {} };
    expect(await simulatePart(batches, config, { ...part, mostNumbers: 1 })).toBeUndefined();
    expect(await simulatePart(batches, config, part)).toBeDefined();
  });

  test("is not divided by a router that reads a replica or is notified of ends", () => {
    const [trace] = tracesOf([{ prompt: 9 }, { prompt: 9 }]);
    const config = simulationConfigOf({});
    const batches = [{ trace, blocks: CacheReplay.blockKeys(config, trace) }];
    const independent = routerRegistry.all.filter((router) => {
      const made = createRouter({ router, replicaCount: 2, blockTokens: 4, seed: 1 });
      return routesOf(made, batches, { replicaCount: 2, speed: 1 }) !== undefined;
    });
    expect(independent.map(({ name }) => name)).toEqual(["random", "round-robin"]);
    const finished = { route: () => 0, finished: () => {} };
    expect(routesOf(finished, batches, { replicaCount: 2, speed: 1 })).toBeUndefined();
  });
});

describe("a cluster in threads", async () => {
  const trace = await readTrace(chatSource({ requests: 400 }));
  const configOf = async (router: string, eviction: string, gpu = "l40s") => {
    const parts = await partsNamed({ eviction, scheduler: "fcfs-chunked" }, {}, "sim");
    const options = { replicas: 3, router, rate: 20, gpu };
    const simulated = await simulatedFrom(options, trace);
    const config: RunConfig = { ...parts, blockTokens: 16, blocks: 2000, seed: 3, warmup: 20, simulated };
    return { config, simulated, input: inMemory(trace, CacheReplay.blockKeys(config, trace)) };
  };

  test.each([
    ["round-robin", "lru", "l40s"],
    ["random", "arc", "l40s"],
    ["random", "lru", "rtx-pro-6000"],
  ])("has the metrics of one thread: %s, %s, %s", async (router, eviction, gpu) => {
    const { config, simulated, input } = await configOf(router, eviction, gpu);
    expect(simulated.profile?.name).toBe(gpu === "l40s" ? undefined : "rtxpro6000-llama-3.1-8b/tp1");
    let passed = 0;
    const advance = (requests: number) => {
      passed += requests;
    };
    const threads = await simulateInThreads(input, config, simulated, { advance }, 2);
    const { simulation } = await runReplay(input, config, { sink: discarded });
    const { series: _, ...found } = threads!;
    const { series: __, ...expected } = simulation!;
    expect(found).toEqual(expected);
    expect(JSON.stringify(found)).toBe(JSON.stringify(expected));
    expect(passed).toBe(400);
  });

  test.each([
    ["round-robin", "lru", "rtx4090", 0],
    ["random", "arc", "l40s", 20],
  ])("is saved in the same files, byte for byte, as from one thread: %s, %s, %s, warm-up %i", async (...choice) => {
    const [router, eviction, gpu, warmup] = choice;
    const { config, simulated, input } = await configOf(router, eviction, gpu);
    const saved = async (run: (sink: RunTables) => Promise<TimeSeries | undefined>) => {
      const folder = mkdtempSync(join(tmpdir(), "kvlab-cluster-"));
      try {
        const tables = new RunTables(warmup);
        const series = await run(tables);
        await tables.finish(folder, [], undefined);
        await writeSeries({ path: join(folder, "series.parquet") }, series!);
        return readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString("base64")]);
      } finally {
        rmSync(folder, { recursive: true });
      }
    };
    const own = { ...config, warmup };
    const one = await saved(
      async (sink) => (await runReplay(input, own, { sink, keepSteps: true })).simulation?.series,
    );
    const two = await saved(
      async (sink) => (await simulateInThreads(input, own, simulated, { sink, keepSteps: true }, 2))?.series,
    );
    expect(one.map(([name]) => name)).toEqual(["requests.parquet", "series.parquet", "steps.parquet"]);
    expect(two).toEqual(one);
  });

  test.each([
    ["least-loaded", "lru"],
    ["round-robin", "belady"],
    ["round-robin", "ttl:ttl-s=3000"],
  ])("is simulated in one thread where replicas or the end matter: %s, %s", async (router, eviction) => {
    const { config, simulated, input } = await configOf(router, eviction);
    expect(await simulateInThreads(input, config, simulated, {}, 2)).toBeUndefined();
  });

  test("is interrupted", async () => {
    const { config, simulated, input } = await configOf("random", "lru");
    const signal = AbortSignal.abort();
    await expect(simulateInThreads(input, config, simulated, { signal }, 2)).rejects.toThrow("interrupted");
  });
});
