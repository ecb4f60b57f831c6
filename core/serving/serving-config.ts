import type { KvCache } from "../cache/kv-cache.ts";
import type { Router } from "../plugins/index.ts";
import type { CacheConfig, SchedulerConfig } from "../replica/compose.ts";
import type { Speculation } from "../replica/speculation.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ArrivalOptions } from "./arrivals.ts";
import type { DisaggregationConfig } from "./disaggregation.ts";
import type { RoundTrips } from "./network.ts";
import type { StepObserver } from "./observers.ts";
import type { Outcomes } from "./outcomes.ts";

/** The options that virtual and real time share. */
export interface ServingConfig extends CacheConfig, SchedulerConfig {
  readonly replicas?: number;
  /** Absent: the first replica gets every request. */
  readonly router?: Router | undefined;
  /** The replicas that this run serves; requests that are routed to others end there and have no times. Absent: all. */
  readonly serves?: ((replica: number) => boolean) | undefined;
  readonly arrivals?: ArrivalOptions;
  /** Latency between clients, router and replicas; absent: none. */
  readonly network?: RoundTrips | undefined;
  /** Prefill and decode on separate replicas; `router` then chooses among the prefill replicas. */
  readonly disaggregation?: DisaggregationConfig | undefined;
  /** Replicas begin and end their steps together, because they share the experts of a model. */
  readonly lockstep?: boolean;
  /** Speculative decoding; absent: one token per decode. */
  readonly speculation?: Speculation | undefined;
  /** Host memory for swapped sequences, in blocks per replica. */
  readonly hostBlocks?: number;
  /** Leading requests that are served but in no metric. */
  readonly warmup?: number;
  /** Keep an event log of every replica. */
  readonly events?: boolean;
  /** Check every invariant in full after every plan and every commit; slow. */
  readonly audit?: boolean;
  /** Called before each request is submitted, for an operator's operations on the cache. */
  readonly before?: (request: number, cache: KvCache, nowNs: Nanos) => void;
  readonly observers?: readonly StepObserver[];
  /** Receives the outcomes of requests in batches, in the order of the trace; see `Arrivals`. */
  readonly sink?: ((outcomes: Outcomes) => void) | undefined;
  /** With a sink: nothing is kept of requests that have ended, also no metrics: memory does not grow with their number. */
  readonly forgets?: boolean;
}
