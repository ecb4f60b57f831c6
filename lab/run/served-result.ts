import { Counters } from "../../core/cache/counters.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { Fragmentation } from "../../core/plugins/index.ts";
import {
  type ClusterMetrics,
  type Latency,
  Metrics,
  type Served,
  type Slo,
  type SloMetrics,
  type Throughput,
} from "../../core/serving/metrics.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import type { TimeSeries } from "../../core/serving/time-series.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { Control } from "../control.ts";

/** What a run in time found, simulated or real, as reports and tables need it. */
export interface ServedResult {
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
  readonly slo: SloMetrics | undefined;
  readonly cluster: ClusterMetrics;
  readonly refusals: Readonly<Record<string, number>>;
  /** A signal ended the run: all else is of requests that had ended, and of steps until then. */
  readonly interrupted?: { readonly requestsDone: number; readonly of: number };
}

/** How a run in time is watched, and what is promised. */
export interface ServingOptions extends Pick<Control, "signal"> {
  readonly slo?: Slo | undefined;
  /** Keep every step. */
  readonly keepSteps?: boolean;
  readonly observers?: readonly StepObserver[];
  readonly advance?: (requests: number) => void;
  /** Given the run when it begins. */
  readonly watch?: (run: Watched) => void;
}

/** A run under way, as others may look at it between any two of its steps. */
export interface Watched {
  /** Requests that ended or were refused. */
  readonly done: number;
  /** Of a run in time: where it is. */
  readonly nowNs?: Nanos;
  readonly series?: TimeSeries;
  readonly replicas: readonly {
    readonly cache: KvCache;
    readonly log: EventLog | undefined;
    readonly replica?: { readonly runningCount: number; readonly waitingCount: number };
    settleInto?(series: TimeSeries, nowNs: Nanos): void;
  }[];
}

/** The figures of a run that has ended or was stopped. */
export function servedResult(
  run: Served & { readonly series: TimeSeries },
  { steps, slo, warmup }: { steps: StepTable | undefined; slo: Slo | undefined; warmup: number | undefined },
): ServedResult {
  const figures = new Metrics(run, warmup);
  const { replicas, arrivals, series } = run;
  return {
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
    refusals: refusalsOf(run),
  };
}

/** Of several caches, or of none. */
export function sumOf(all: readonly Counters[]): Counters {
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
function refusalsOf({ replicas }: Served): Record<string, number> {
  const all: Record<string, number> = {};
  for (const { refusals } of replicas) for (const [why, count] of refusals) all[why] = (all[why] ?? 0) + count;
  return all;
}
