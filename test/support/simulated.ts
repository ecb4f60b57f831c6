import fc from "fast-check";
import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import type { CacheConfig } from "../../core/replica/compose.ts";
import { createRouter } from "../../core/replica/compose.ts";
import { noLoad, type StepLoad } from "../../core/serving/step-load.ts";
import { countNames, levelNames } from "../../core/serving/time-series.ts";
import { type Trace, TraceBuilder } from "../../core/trace/trace.ts";
import type { Preset } from "../../policies/preset.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  routerRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { Simulation, type SimulationConfig, simulate } from "../../sim/simulation.ts";

/** A request in the short form of a test; rows are in order of arrival. Times in ns, lengths in tokens. */
export interface Row {
  readonly at?: number;
  /** Token ids of the prompt, or its length if it shares no token with other prompts. */
  readonly prompt: number | readonly number[];
  /** Token ids of the output, or its length. */
  readonly output?: number | readonly number[];
  readonly maxOutput?: number;
  readonly session?: number;
  readonly parent?: number;
  readonly thinkNs?: number;
  readonly priority?: number;
  readonly marked?: number;
  readonly namespace?: number;
}

/** The rows as one trace of token ids, or as batches of `batchOf` rows. */
export function tracesOf(rows: readonly Row[], batchOf = Number.POSITIVE_INFINITY): Trace[] {
  const builder = new TraceBuilder(1);
  const traces: Trace[] = [];
  let fresh = 1000;
  const tokens = (given: number | readonly number[]) =>
    typeof given === "number" ? Array.from({ length: given }, () => fresh++) : given;
  for (const { at = 0, prompt, output = 1, maxOutput, marked, ...rest } of rows) {
    const keys = tokens(prompt);
    const generatedKeys = tokens(output);
    builder.add({
      ...rest,
      arrivalNs: at,
      inputTokens: keys.length,
      outputTokens: generatedKeys.length,
      ...(maxOutput !== undefined && { maxOutputTokens: maxOutput }),
      ...(marked !== undefined && { markedTokens: Math.min(marked, keys.length) }),
      keys,
      generatedKeys,
    });
    if (builder.requestCount >= batchOf) traces.push(builder.take());
  }
  if (builder.requestCount > 0) traces.push(builder.take());
  return traces;
}

export type Coefficients = Partial<StepLoad> & { readonly fixed?: number; readonly windowTokens?: number };

/** Step time = `fixed` + the sum of coefficient · load over the fields of the step load, in ns. */
export function linearCost({ fixed = 1, windowTokens, ...coefficients }: Coefficients): CostModel {
  const each = Object.entries(coefficients) as [keyof StepLoad, number][];
  return {
    name: "linear",
    windowTokens,
    stepNs: (load) => each.reduce((sum, [name, ns]) => sum + ns * load[name], fixed),
  };
}

/** Settings that differ from the default: hash table, LRU, unlimited blocks of 4 tokens, scheduler `naive`. */
export interface OwnSimulation extends Partial<Omit<SimulationConfig, "scheduler" | "router" | "cost" | "index">> {
  readonly cost?: CostModel | SimulationConfig["cost"];
  readonly scheduler?: string | SchedulerPlugin;
  readonly router?: string | undefined;
  readonly preset?: Preset | undefined;
  readonly policy?: string | undefined;
  readonly index?: string | undefined;
}

export function cacheConfigOf({ preset, policy, index, ...own }: OwnSimulation): CacheConfig {
  return {
    index: index === undefined && preset ? preset.index : indexRegistry.get(index ?? "hash-table"),
    eviction: policy === undefined && preset ? preset.eviction : evictionRegistry.get(policy ?? "lru"),
    allocator: own.allocator ?? preset?.allocator ?? allocatorRegistry.get("block"),
    blockTokens: own.blockTokens ?? 4,
    blocks: own.blocks,
    rules: { ...preset?.rules, ...own.rules },
    seed: own.seed ?? 1,
  };
}

export function simulationConfigOf(own: OwnSimulation = {}): SimulationConfig {
  const { cost = linearCost({ fixed: 1 }), scheduler = "naive", router, preset, policy, index, ...rest } = own;
  const cache = cacheConfigOf(own);
  const { seed, blockTokens } = cache;
  const replicaCount = own.disaggregation?.prefillReplicas ?? own.replicas ?? 1;
  return {
    ...rest,
    ...cache,
    cost: typeof cost === "function" ? cost : () => cost,
    scheduler: typeof scheduler === "string" ? schedulerRegistry.get(scheduler) : scheduler,
    router: router && createRouter({ router: routerRegistry.get(router), replicaCount, blockTokens, seed }),
  } as SimulationConfig;
}

export function simulated(rows: readonly Row[], own: OwnSimulation = {}): Simulation {
  return simulate(tracesOf(rows)[0], simulationConfigOf(own));
}

/** The same requests, fed in batches of `batchOf` rows whenever the simulation needs more. */
export function simulatedInBatches(rows: readonly Row[], batchOf: number, own: OwnSimulation = {}): Simulation {
  const simulation = new Simulation(simulationConfigOf(own));
  for (const trace of tracesOf(rows, batchOf)) {
    simulation.feed(trace);
    while (simulation.run(3));
  }
  simulation.end();
  while (simulation.run(3));
  return simulation;
}

/** One column of the outcomes of all requests. */
export function outcome(
  { arrivals }: Simulation,
  name: Exclude<keyof Simulation["arrivals"]["batches"][number]["outcomes"], "session">,
): number[] {
  return arrivals.batches.flatMap(({ outcomes }) => [...outcomes[name]]);
}

export const outcomeNames = [
  ...(["inputTokens", "outputTokens", "promptBlocks", "arrivalNs", "admittedNs", "firstTokenNs"] as const),
  ...(["finishedNs", "hitBlocks", "hitTokens", "preemptions", "replica", "refused"] as const),
];

/** The event log of a replica, one line per event. */
export const linesOf = (simulation: Simulation, replica = 0): string[] => {
  const { log } = simulation.replicas[replica];
  return Array.from({ length: log?.count ?? 0 }, (_, at) => log!.line(at));
};

/** All results of a simulation, for comparison with another one. */
export function everythingOf(simulation: Simulation) {
  const { series, replicas } = simulation;
  return {
    nowNs: simulation.nowNs,
    outcomes: Object.fromEntries(outcomeNames.map((name) => [name, outcome(simulation, name)])),
    logs: replicas.map((_, number) => linesOf(simulation, number)),
    intervalNs: series.intervalNs,
    intervals: series.count,
    levels: Object.fromEntries(levelNames.map((name) => [name, [...series.levels[name].subarray(0, series.count)]])),
    counts: Object.fromEntries(countNames.map((name) => [name, [...series.counts[name].subarray(0, series.count)]])),
    replicas: replicas.map(({ stepCount, busyNs, waitNs, lastWaitNs, refusals, cache: { counters } }) => ({
      ...{ stepCount, busyNs, waitNs, lastWaitNs, refusals: [...refusals] },
      ...counters,
      missTokens: [...counters.missTokens],
    })),
  };
}

/** The sum of a count, or of a level, over all intervals of the time series. */
export const totalOf = ({ series }: Simulation, name: (typeof countNames)[number]): number =>
  series.counts[name].reduce((sum, count) => sum + count, 0);
export const integralOf = ({ series }: Simulation, name: (typeof levelNames)[number]): number =>
  series.levels[name].reduce((sum, level) => sum + level, 0);

const tokens = (maxLength: number) => fc.array(fc.nat(1), { minLength: 1, maxLength });

/** Short requests, many with a common prefix; some arrive together, some long after the previous one. */
export const workloads = ({ maxRequests = 25, maxOutputTokens = 40, maxGapNs = 3000 } = {}): fc.Arbitrary<Row[]> =>
  fc
    .array(
      fc.record({
        gapNs: fc.oneof(fc.constant(0), fc.nat(maxGapNs)),
        parent: fc.nat(4),
        sharedTokens: fc.nat(30),
        own: tokens(12),
        output: tokens(maxOutputTokens),
        unusedTokens: fc.nat(5),
        session: fc.nat(4),
        thinkNs: fc.oneof(fc.constant(0), fc.nat(2000)),
        priority: fc.integer({ min: -1, max: 2 }),
        marked: fc.nat(20),
      }),
      { minLength: 1, maxLength: maxRequests, size: "max" },
    )
    .map((all) => {
      let at = 0;
      const rows: Row[] = [];
      for (const { gapNs, parent, sharedTokens, own, output, unusedTokens, ...rest } of all) {
        at += gapNs;
        const before = rows[rows.length - 1 - parent];
        const history = before ? [...(before.prompt as number[]), ...(before.output as number[])] : [];
        rows.push({
          at,
          prompt: [...history.slice(0, sharedTokens), ...own],
          output,
          maxOutput: output.length + unusedTokens,
          ...rest,
        });
      }
      return rows;
    });

/** Linear costs with integer coefficients, with and without an attention window. */
export const costs: fc.Arbitrary<Coefficients> = fc
  .record({
    fixed: fc.integer({ min: 1, max: 100 }),
    ...Object.fromEntries(Object.keys(noLoad()).map((name) => [name, fc.nat(3)])),
    window: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  })
  .map(({ window, ...rest }) => ({ ...rest, ...(window !== undefined && { windowTokens: window }) }) as Coefficients);

/** Every scheduler and preset, with caches that are too small for some workloads, or unlimited. Events are recorded. */
export const settings: fc.Arbitrary<OwnSimulation & { readonly events: true }> = fc
  .record({
    scheduler: fc.constantFrom(...schedulerRegistry.all.map(({ name }) => name)),
    preset: fc.option(fc.constantFrom(...presetRegistry.all), { nil: undefined }),
    blockTokens: fc.constantFrom(1, 4, 16),
    tokens: fc.oneof(fc.integer({ min: 60, max: 250 }), fc.constant(undefined)),
    hostBlocks: fc.constantFrom(0, 20),
    loop: fc.constantFrom("open" as const, "closed" as const),
  })
  .map(({ tokens, loop, ...own }) => ({
    ...own,
    ...(tokens !== undefined && { blocks: Math.ceil(tokens / own.blockTokens) }),
    arrivals: { loop },
    events: true as const,
  }));
