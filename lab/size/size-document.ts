import type { Objective, Slo, SloMetric } from "../../core/serving/metrics.ts";
import type { Limit } from "../../core/serving/offered-load.ts";
import type { TraceReport } from "../output/report.ts";
import type { Interval } from "../uncertainty/bootstrap.ts";

/** A cluster that was simulated, and its results. */
export interface SizedCluster {
  readonly gpu: string;
  readonly tensorParallel: number;
  readonly replicas: number;
  /** GPUs of all replicas. */
  readonly gpus: number;
  readonly preset: string;
  readonly index: string;
  readonly eviction: string;
  /** Null with one replica. */
  readonly router: string | null;
  /** Bytes of the cache on each GPU, and blocks of each replica. */
  readonly cacheBytesPerGpu: number;
  readonly blocks: number | null;
  readonly blockTokens: number;
  readonly costPerHour: number;
  /** Of prompt and output tokens; null if none were served. */
  readonly costPerMillionTokens: number | null;
  readonly met: boolean;
  readonly objectives: readonly Objective[];
  readonly ttftMsP50: number | null;
  readonly ttftMsP99: number | null;
  readonly tpotMsP50: number | null;
  readonly tpotMsP99: number | null;
  readonly requestsPerS: number;
  readonly goodputRequestsPerS: number;
  /** Cached prompt tokens ÷ prompt tokens. */
  readonly hitRatio: number;
  /** Mean share of the makespan in which a replica computes. */
  readonly utilisation: number;
  readonly refusedRequests: number;
  readonly preemptions: number;
  readonly limitedBy: Limit;
  readonly steady: boolean;
}

/** A cluster in the list of all. */
export interface ListedCluster extends SizedCluster {
  /** The Pareto front: no other simulated cluster is as good in cost, TTFT, goodput and hit ratio, and better in one. */
  readonly onFront: boolean;
  readonly chosen: boolean;
}

/** The share of the requests within a limit, with its 95 % interval, and the share that is required. */
export interface ShareWithin {
  readonly metric: SloMetric;
  readonly required: number;
  readonly share: number;
  /** Undefined for a trace with few sessions. */
  readonly interval?: Interval;
}

/** What the chosen policy and router gain over LRU and round-robin. */
export interface Gain {
  /** LRU and round-robin on the same GPUs; null if that is the answer. */
  readonly baseline: SizedCluster | null;
  /** Hit ratio − that of the baseline; its 95 % interval if the trace has enough sessions. */
  readonly hitRatio: { readonly value: number; readonly interval?: Interval } | null;
  /** The fewest GPUs of the same type with LRU and round-robin that meet the SLO; null if none do. */
  readonly cheapestBaseline: SizedCluster | null;
}

/** What limits a cluster: `compute` if neither a larger cache nor more running sequences change much. */
export type SizeLimit = "compute" | "memory" | "cache" | "max_num_seqs";

/** Why fewer GPUs are not enough. */
export interface SizeLimits {
  readonly limit: SizeLimit;
  /** The cluster that the limit is that of: one replica fewer than the answer, or the answer with one replica. */
  readonly of: SizedCluster;
  /** The same with an unlimited cache, and with twice `max_num_seqs`; null if the scheduler has no such option. */
  readonly unlimitedCache: SizedCluster;
  readonly twiceMaxNumSeqs: SizedCluster | null;
}

/** The chosen cluster: how certain it is that it meets the SLO, what it gains, and what limits it. */
export interface SizeAnswer {
  readonly cluster: SizedCluster;
  readonly within: readonly ShareWithin[];
  readonly gain: Gain;
  readonly limits: SizeLimits;
  /** One replica more; null if that would exceed the most GPUs. */
  readonly oneReplicaMore: SizedCluster | null;
  /** 16 GiB more for the cache on each GPU. */
  readonly moreMemory: SizedCluster;
}

/** The document that `kvlab size --json` prints: schema size/1. */
export interface SizeDocument {
  readonly schema: "size/1";
  readonly kvlab: string;
  readonly trace: TraceReport;
  readonly model: string;
  readonly slo: Slo;
  readonly load: {
    readonly loop: "open" | "closed";
    readonly concurrency?: number | undefined;
    readonly speed: number;
    readonly requestsPerS: number | null;
  };
  readonly warmup: number;
  readonly seed: number;
  readonly prices: {
    readonly currency: string;
    /** Null: the built-in prices, which are assumptions. */
    readonly file: string | null;
    readonly gpus: Readonly<Record<string, { readonly perHour: number; readonly source: string }>>;
  };
  readonly grid: {
    readonly combinations: number;
    readonly maxGpus: number;
    /** Combinations with each number of replicas: the simulations of brute force. */
    readonly clusters: number;
  };
  /** GPUs and degrees of tensor parallelism that were left out. */
  readonly excluded: readonly { readonly gpu: string; readonly tensorParallel: number; readonly reason: string }[];
  /** Simulations that found the answer, and those that explain it. */
  readonly simulations: { readonly search: number; readonly explanation: number };
  /** Why step times of these GPUs are not from measurements on them. */
  readonly costNotes: readonly string[];
  /** Null if no cluster meets the SLO. */
  readonly answer: SizeAnswer | null;
  /** All clusters that were simulated, the cheapest first. */
  readonly clusters: readonly ListedCluster[];
}
