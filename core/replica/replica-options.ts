import type { KvCache } from "../cache/kv-cache.ts";
import type { Sequence } from "../cache/request.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Scheduler } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Speculation } from "./speculation.ts";

/** Request lifecycle callbacks. */
export interface ReplicaListener {
  admitted?(sequence: Sequence, now: Nanos): void;
  firstToken?(sequence: Sequence, now: Nanos): void;
  /** Its first `tokens` tokens must be copied to host memory now: its blocks are released after this call. */
  swappedOut?(sequence: Sequence, tokens: number): void;
  /** The `tokens` tokens after the cached ones must be copied from host memory to its blocks before the step runs. */
  swappedIn?(sequence: Sequence, tokens: number): void;
  finished?(sequence: Sequence, now: Nanos): void;
  refused?(sequence: Sequence, why: string, now: Nanos): void;
  /** Prefill only: the first token is generated, and others are to follow on another replica. */
  prefilled?(sequence: Sequence, now: Nanos): void;
  /** Blocks are allocated for a request whose prompt was computed elsewhere; `tokens` of it are not cached here. */
  fetches?(sequence: Sequence, tokens: number, now: Nanos): void;
}

export interface ReplicaOptions {
  readonly cache: KvCache;
  readonly scheduler: Scheduler;
  readonly log?: EventLog | undefined;
  readonly listener?: ReplicaListener;
  /**
   * `step`: one output token per step, with blocks allocated as needed. `skip`: a request finishes with the step that
   * computes its prompt; output tokens have blocks only if the rules cache them. Used by the clock-free replay, which counts
   * prompts.
   */
  readonly generation: "step" | "skip";
  /** Blocks of host memory for sequences that are swapped out; 0 by default. */
  readonly hostBlocks?: number;
  /**
   * Requests leave after their first token. Their blocks stay referenced until `release`, so that another replica can read them.
   */
  readonly isPrefillOnly?: boolean;
  /** Most batches in flight, the stages of a pipeline; 1 by default. With several, steps are started with `start`. */
  readonly batchesInFlight?: number | undefined;
  /** Decodes verify draft tokens; absent: one token per decode. */
  readonly speculation?: Speculation | undefined;
}
