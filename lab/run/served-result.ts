import { Counters } from "../../core/cache/counters.ts";
import type { KvCache } from "../../core/cache/kv-cache.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import type { Fragmentation } from "../../core/plugins/index.ts";
import type { CachedCopies } from "../../core/serving/cached-copies.ts";
import { type DraftMetrics, draftMetrics } from "../../core/serving/draft-metrics.ts";
import type { Served } from "../../core/serving/measured-requests.ts";
import {
  type ClusterMetrics,
  type Latency,
  Metrics,
  type Slo,
  type SloMetrics,
  type Throughput,
} from "../../core/serving/metrics.ts";
import type { StepObserver } from "../../core/serving/observers.ts";
import type { OfferedLoad } from "../../core/serving/offered-load.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import type { TimeSeries } from "../../core/serving/time-series.ts";
import { type TransferMetrics, transferMetrics } from "../../core/serving/transfer-metrics.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { Control } from "../control.ts";

/** The results of a timed run, simulated or real. */
export interface ServedResult extends ServedMetrics {
  readonly requests: Outcomes;
}

/** The results of a timed run, whose requests may have been passed to a sink. */
export interface ServedMetrics {
  readonly counters: Counters;
  /** Fragmentation of the first replica, if its allocator measures it. */
  readonly fragmentation: Fragmentation | undefined;
  readonly requests: Outcomes | undefined;
  /** One log for each replica, if `events` is set. */
  readonly logs: readonly EventLog[];
  readonly steps: StepTable | undefined;
  readonly series: TimeSeries;
  readonly latency: Latency;
  readonly throughput: Throughput;
  readonly load: OfferedLoad;
  readonly slo: SloMetrics | undefined;
  readonly cluster: ClusterMetrics;
  /** With separate replicas for prefill and decode. */
  readonly transfers: TransferMetrics | undefined;
  /** With speculative decoding. */
  readonly drafts: DraftMetrics | undefined;
  readonly refusals: Readonly<Record<string, number>>;
  /** The signal ended the run: all other fields cover the finished requests and the steps until then. */
  readonly interrupted?: { readonly requestsDone: number; readonly of: number };
}

/** Observers, SLO and cancellation of a timed run. */
export interface ServingOptions extends Pick<Control, "signal"> {
  readonly slo?: Slo | undefined;
  /** Records every step. */
  readonly keepSteps?: boolean;
  readonly observers?: readonly StepObserver[];
  readonly advance?: (requests: number) => void;
  /** Called with the run when it starts. */
  readonly watch?: (run: Watched) => void;
}

/** A run in progress, which may be read between any two of its steps. */
export interface Watched {
  /** Requests that finished or were refused. */
  readonly done: number;
  /** The current time of a timed run. */
  readonly nowNs?: Nanos;
  readonly series?: TimeSeries;
  readonly arrivals?: Served["arrivals"];
  readonly replicas: readonly {
    readonly cache: KvCache;
    /** Time with a step, of a timed run. */
    readonly busyNs?: number;
    /** Number of refusals by reason. */
    readonly refusals?: ReadonlyMap<string, number>;
    readonly log: EventLog | undefined;
    readonly replica?: { readonly runningCount: number; readonly waitingCount: number };
    addLevelsTo?(series: TimeSeries, nowNs: Nanos): void;
  }[];
}

/** A run that has ended or was stopped. */
type EndedRun = Served & { readonly series: TimeSeries };

interface ResultOptions {
  /** Has all prompts; it may be omitted if the run has not released them. */
  readonly copies?: CachedCopies | undefined;
  readonly steps: StepTable | undefined;
  readonly slo: Slo | undefined;
  readonly warmup: number | undefined;
}

/** The results of a run of a trace in one batch. */
export const servedResult = (run: EndedRun, options: ResultOptions): ServedResult => ({
  ...servedMetrics(run, options),
  requests: run.arrivals.batches[0].outcomes,
});

/** The results of a run without those of its requests. */
export function servedMetrics(run: EndedRun, { steps, slo, warmup, copies }: ResultOptions): ServedMetrics {
  const metrics = new Metrics(run, warmup);
  const { replicas, series } = run;
  return {
    counters: countersOf(run),
    fragmentation: replicas[0].cache.fragmentation,
    requests: undefined,
    logs: replicas.flatMap(({ log }) => log ?? []),
    steps,
    series,
    latency: metrics.latency(),
    throughput: metrics.throughput(),
    load: metrics.load(),
    slo: slo && metrics.slo(slo),
    cluster: metrics.cluster(copies),
    transfers: transferMetrics(run, warmup ?? 0),
    drafts: draftMetrics(replicas),
    refusals: refusalsOf(run),
  };
}

/**
 * The counters of all replicas. With separate replicas for prefill and decode, a request is looked up on two: lookups, hits and
 * misses are those of prefill replicas; refusals, preemptions, insertions and evictions those of all.
 */
function countersOf({ replicas, transfers }: Served): Counters {
  const all = sumOf(replicas.map(({ cache }) => cache.counters));
  if (transfers === undefined) return all;
  const prefill = sumOf([
    new Counters(),
    ...replicas.filter(({ isPrefill }) => isPrefill).map(({ cache }) => cache.counters),
  ]);
  const { refusedRequests, preemptions, rehitTokens } = all;
  const { insertedBlocks, evictedBlocks, expiredBlocks, refusedBlocks, copiedBlocks } = all;
  return Object.assign(prefill, {
    ...{ refusedRequests, preemptions, rehitTokens },
    ...{ insertedBlocks, evictedBlocks, expiredBlocks, refusedBlocks, copiedBlocks },
  });
}

/** The sum of the counters of several caches, or of none. */
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

/** Number of refusals by reason, over all replicas. */
export function refusalsOf({ replicas }: Pick<Watched, "replicas"> | Served): Record<string, number> {
  const all: Record<string, number> = {};
  for (const { refusals = [] } of replicas)
    for (const [reason, count] of refusals) all[reason] = (all[reason] ?? 0) + count;
  return all;
}
