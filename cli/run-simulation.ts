import type { BlockColumns } from "../core/content.ts";
import { Counters } from "../core/counters.ts";
import type { EventLog } from "../core/events.ts";
import type { Fragmentation } from "../core/plugins.ts";
import {
  type ClusterFigures,
  Figures,
  type Latency,
  type Slo,
  type SloFigures,
  type Throughput,
} from "../core/serving/figures.ts";
import type { Outcomes } from "../core/serving/outcomes.ts";
import type { StepObserver } from "../core/serving/served-replica.ts";
import { StepTable } from "../core/serving/step-table.ts";
import type { TimeSeries } from "../core/serving/time-series.ts";
import type { Trace } from "../core/trace.ts";
import { Simulation, type SimulationConfig } from "../sim/simulation.ts";
import { breathe } from "./interrupt.ts";
import { sliceMs, withFile } from "./slices.ts";

/** What a simulation found, as reports and tables need it. */
export interface SimulationResult {
  readonly counters: Counters;
  /** Of the first replica, where its allocator counts it. */
  readonly fragmentation: Fragmentation | undefined;
  readonly requests: Outcomes;
  /** One of each replica, if they were kept. */
  readonly logs: readonly EventLog[];
  readonly steps: StepTable | undefined;
  readonly series: TimeSeries;
  readonly latency: Latency;
  readonly throughput: Throughput;
  readonly slo: SloFigures | undefined;
  readonly cluster: ClusterFigures;
  readonly refusals: Readonly<Record<string, number>>;
}

export interface RunSimulationOptions {
  readonly slo?: Slo | undefined;
  /** Keep every step. */
  readonly keepSteps?: boolean;
  readonly observers?: readonly StepObserver[];
  readonly advance?: (requests: number) => void;
}

/** Simulates a trace, in slices that can be interrupted. @throws Interrupted, PolicyError naming a user's file */
export async function runSimulation(
  trace: Trace,
  blocks: BlockColumns,
  config: SimulationConfig,
  { slo, keepSteps, observers = [], advance = () => {} }: RunSimulationOptions = {},
): Promise<{ readonly result: SimulationResult; readonly wallMs: number }> {
  const steps = keepSteps ? new StepTable() : undefined;
  const all = [...(steps ? [steps] : []), ...observers];
  const simulation = new Simulation(all.length === 0 ? config : { ...config, observer: together(all) });
  let wallMs = 0;
  let told = 0;
  let events = 1024;
  try {
    let start = performance.now();
    simulation.feed(trace, blocks);
    simulation.end();
    for (let isMore = true; isMore; ) {
      isMore = simulation.run(events);
      const took = performance.now() - start;
      wallMs += took;
      events = Math.ceil(Math.min(Math.max((events * sliceMs) / Math.max(took, 0.1), events / 4), events * 4));
      advance(simulation.done - told);
      told = simulation.done;
      await breathe();
      start = performance.now();
    }
  } catch (error) {
    throw withFile(error, config);
  }
  const figures = new Figures(simulation, config.warmup);
  const { replicas, arrivals, series } = simulation;
  const result = {
    counters: sumOf(replicas.map(({ cache }) => cache.counters)),
    fragmentation: replicas[0].cache.fragmentation,
    requests: arrivals.batches[0].outcomes,
    logs: replicas.flatMap(({ log }) => log ?? []),
    steps,
    series,
    latency: figures.latency(),
    throughput: figures.throughput(),
    slo: slo && figures.slo(slo),
    cluster: figures.cluster(),
    refusals: refusalsOf(simulation),
  };
  return { result, wallMs };
}

function together(observers: readonly StepObserver[]): StepObserver {
  return {
    steps: (...args) => {
      for (const observer of observers) observer.steps?.(...args);
    },
    arrived: (...args) => {
      for (const observer of observers) observer.arrived?.(...args);
    },
    admitted: (...args) => {
      for (const observer of observers) observer.admitted?.(...args);
    },
    firstToken: (...args) => {
      for (const observer of observers) observer.firstToken?.(...args);
    },
    ended: (...args) => {
      for (const observer of observers) observer.ended?.(...args);
    },
  };
}

function sumOf(all: readonly Counters[]): Counters {
  if (all.length === 1) return all[0];
  const sum = new Counters();
  for (const counters of all) {
    const { missTokens, ...numbers } = counters;
    for (const [name, value] of Object.entries(numbers)) sum[name as keyof typeof numbers] += value;
    missTokens.forEach((tokens, reason) => {
      sum.missTokens[reason] += tokens;
    });
  }
  return sum;
}

/** Reasons and how often, of all replicas. */
function refusalsOf({ replicas }: Simulation): Record<string, number> {
  const all: Record<string, number> = {};
  for (const { refusals } of replicas) for (const [why, count] of refusals) all[why] = (all[why] ?? 0) + count;
  return all;
}
