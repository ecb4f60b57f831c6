import { isDeepStrictEqual } from "node:util";
import { seededRandom } from "../../core/random.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import { ChunkTable } from "../../core/serving/chunk-table.ts";
import { noLoad, type StepLoad } from "../../core/serving/step-load.ts";
import { StepTable } from "../../core/serving/step-table.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { simulate } from "../../sim/simulation.ts";
import { decisionCounts } from "../compare/decisions.ts";
import { OperationsPlayer } from "../run/operations-file.ts";
import type { Checked, Failure, FuzzCase, FuzzKind } from "./kinds.ts";
import { divergenceOf, type Side } from "./serving.ts";
import { configOf, type FuzzParts } from "./setup.ts";

/** Compares two runs of the simulator: one executes consecutive equal steps together, the other plans every step. */
export const fastForward: FuzzKind = {
  name: "fast-forward",
  property: "steps that the simulator executes at once have the same results as steps planned one by one",
  check: async (one, parts) => compared(one, parts),
};

interface Simulated extends Side {
  /** Steps that were executed together with the previous one. */
  readonly atOnce: number;
  /** All other results of the simulation. */
  readonly metrics: Readonly<Record<string, unknown>>;
}

function compared(one: FuzzCase, parts: FuzzParts): Checked {
  const atOnce = simulated(one, parts, false);
  const single = simulated(one, parts, true);
  const failure = divergenceOf(["at once", "one by one"], atOnce, single) ?? differingMetric(atOnce, single);
  return { decisions: { ...decisionCounts(atOnce), "step at once": atOnce.atOnce }, failure };
}

function simulated({ trace, setup, operations }: FuzzCase, parts: FuzzParts, everyStep: boolean): Simulated {
  const config = configOf(setup, parts);
  const columns = blockKeysFor(config, trace.unitTokens).of(trace);
  const player = new OperationsPlayer(operations, trace, columns);
  const table = new StepTable();
  const cost = seededCost(setup.clock);
  let atOnce = 0;
  const simulation = simulate(
    trace,
    {
      ...config,
      cost: () => cost,
      hostBlocks: setup.hostBlocks,
      arrivals: { loop: setup.loop },
      observers: [table, { steps: (_replica, _load, _startNs, count) => (atOnce += count - 1) }],
      before: (...args) => player.before(...args),
      ...{ events: true, audit: true, everyStep },
    },
    columns,
  );
  const { series, nowNs, arrivals, replicas } = simulation;
  const [{ log, cache, stepCount, busyNs, refusals }] = replicas;
  const columnsOf = (all: Readonly<Record<string, Float64Array>>) =>
    Object.entries(all).map(([name, column]) => [name, column.slice(0, series.count)] as const);
  return {
    log: log!,
    // Chunks are recorded for planned steps only, so they are not compared.
    chunks: new ChunkTable(),
    outcomes: arrivals.batches[0].outcomes,
    operations: player.results,
    atOnce,
    metrics: {
      ...{ nowNs, stepCount, busyNs, refusals, counters: cache.counters, intervalNs: series.intervalNs, table },
      ...Object.fromEntries([...columnsOf(series.levels), ...columnsOf(series.counts)]),
    },
  };
}

function differingMetric(a: Simulated, b: Simulated): Failure | undefined {
  const name = Object.keys(a.metrics).find((key) => !isDeepStrictEqual(a.metrics[key], b.metrics[key]));
  return name === undefined ? undefined : { category: `metric ${name}`, message: `${name} differs` };
}

/** Steps take a millisecond with seed 0, otherwise a random time for each unit of the load. */
function seededCost(seed: number): CostModel {
  if (seed === 0) return { name: "seeded", stepNs: () => 1_000_000 };
  const random = seededRandom(seed);
  const each = Object.keys(noLoad()).map(
    (name) => [name as keyof StepLoad, random.below(4) * random.below(1000)] as const,
  );
  const fixedNs = 1 + random.below(1_000_000);
  return {
    name: "seeded",
    windowTokens: random.below(2) === 0 ? undefined : 1 + random.below(40),
    stepNs: (load) => each.reduce((sum, [name, ns]) => sum + ns * load[name], fixedNs),
  };
}
