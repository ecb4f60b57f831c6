import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Plugin, PluginOption } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";
import type { Rules } from "./rules.ts";

/** A sequence as a scheduler reads it. */
export interface SequenceView {
  readonly request: RequestView;
  /** Tokens whose KV is in the block table, cached or computed; with the rule `hit-compute=recompute` computed ones only. */
  readonly computedTokens: number;
  /** Of these, hits at admission. */
  readonly cachedTokens: number;
  /** Tokens of the prompt and output tokens so far: their KV is needed to generate the next token. */
  readonly knownTokens: number;
  readonly generatedTokens: number;
  readonly preemptions: number;
  /** Whether it is in the step that is being planned. */
  readonly inStep: boolean;
  /** Tokens that this step computes or swaps in for it. */
  readonly stepTokens: number;
  /** Tokens whose KV is in host memory, while the request waits. */
  readonly swappedTokens: number;
  /** Length of its block table. */
  readonly blockCount: number;
  readonly next: SequenceView | undefined;
}

/**
 * The limits that end the admissions of a plan: running requests (`max-num-seqs`), tokens of the step or of all running requests
 * (`token-budget`), available or reserved blocks (`blocks`), or a decision of the scheduler.
 */
export const admissionLimits = ["max-num-seqs", "token-budget", "blocks", "scheduler"] as const;
/** A limit that ends the admissions of a plan; see `admissionLimits`. */
export type AdmissionLimit = (typeof admissionLimits)[number];

/**
 * State and actions of a replica for its scheduler: queues, cache lookups, the clock, and the actions that compose a step.
 * The replica records which of them a plan uses (see `PlanValidity`).
 */
export interface SchedulerContext {
  /** Time of the plan. A plan that reads it is valid for one step only. */
  readonly now: Nanos;
  /** Head of the waiting queue, linked by `next`: preempted requests, then the others in order of arrival. */
  readonly firstWaiting: SequenceView | undefined;
  readonly waitingCount: number;
  /** Running sequences, except those in a batch in flight. */
  readonly running: readonly SequenceView[];
  /** Pipeline parallelism: most batches in flight. 1 without it. */
  readonly batchesInFlight: number;
  /** Sequences of batches in flight, which the plan cannot contain; 0 without pipeline parallelism. */
  readonly inFlightCount: number;
  readonly blockTokens: number;
  readonly totalBlocks: number | undefined;
  /** Free and evictable blocks. */
  readonly availableBlocks: number;
  /** Referenced blocks. */
  readonly referencedBlocks: number;
  /** Hit tokens that an admission would have; changes nothing. */
  cachedTokens(sequence: SequenceView): number;
  /**
   * Admits a waiting request: references its cached prefix, allocates blocks for at most `tokens` more (all by default) and
   * adds these to the step. False, without any change, if there are too few available blocks, or fewer than `spareBlocks`
   * would be left.
   */
  admit(sequence: SequenceView, tokens?: number, spareBlocks?: number): boolean;
  /** Adds at most `tokens` more of a running request to the step. False, without any change, if they have no blocks. */
  schedule(sequence: SequenceView, tokens?: number): boolean;
  /** Free blocks in host memory, for `preempt(…, "swap")`. */
  readonly freeHostBlocks: number;
  /**
   * Preempts a running request: it returns to the head or the tail of the waiting queue and its blocks are released; with
   * `swap` their contents are copied to host memory, and back before its next step.
   */
  preempt(sequence: SequenceView, how: "recompute" | "swap", place?: "head" | "tail"): void;
  /** Deletes the unreferenced cached blocks of the request's marked prefix. */
  deletePrefix(request: RequestView): void;
  /** Refuses a waiting or running request. */
  refuse(sequence: SequenceView, why: string): void;
  /**
   * Records the limit that ends the admissions of this plan; reports name the limit that made requests wait for the longest
   * time. Without a call it is `blocks` if `admit` or `schedule` returned false in this plan, else `scheduler`.
   */
  limitedBy(limit: AdmissionLimit): void;
}

/**
 * How long a plan stays valid. undefined: for one step. `until-change`: as long as its inputs are the same, because the
 * scheduler's own state (a step counter, a random generator) does not change the plan.
 *
 * The replica records the inputs of a plan. It calls `plan` again when a request finishes or needs a block; if the plan
 * admitted, preempted or refused a request; if it read the clock; if it read the cache (`availableBlocks`, `cachedTokens`,
 * a failed `admit` …) and the cache has changed since; if it read the waiting queue, or the scheduler has `arrived`, and a
 * request has arrived.
 */
export type PlanValidity = "until-change" | undefined;

/** Decides which requests, and how many of their tokens, enter the next step. */
export interface Scheduler {
  /** Composes the next step with the actions of `context`; returns how long the plan stays valid. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a scheduler that omits the validity returns undefined
  plan(context: SchedulerContext): PlanValidity | void;
  /** The last plan was repeated for `steps` more steps, without further calls of `plan`. */
  repeated?(steps: number): void;
  /** A request has arrived. */
  arrived?(sequence: SequenceView, now: Nanos): void;
  /** A request has finished, or was cancelled by its client, possibly before its admission; not called for refused requests. */
  finished?(sequence: SequenceView, now: Nanos): void;
}

export interface SchedulerPlugin extends Plugin {
  /** It counts `inFlightCount` in its limits, and refuses no request for lack of blocks while batches are in flight. */
  readonly isPipelined?: true;
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** `options` has a value for every option that the plug-in declares. */
  create(given: {
    readonly random: Random;
    readonly rules: Rules;
    readonly options: Readonly<Record<string, number>>;
  }): Scheduler;
}
