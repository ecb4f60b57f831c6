import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Plugin, PluginOption } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";
import type { Rules } from "./rules.ts";

/** A request in a replica as a scheduler sees it. */
export interface SequenceView {
  readonly request: RequestView;
  /** Tokens whose keys and values are there, cached or computed. */
  readonly computedTokens: number;
  /** Of these, found in the cache at admission. */
  readonly cachedTokens: number;
  /** Tokens that must be there before the next one can be generated: the prompt and what was generated so far. */
  readonly knownTokens: number;
  readonly generatedTokens: number;
  readonly preemptions: number;
  /** It is in the step that is being planned ... */
  readonly inStep: boolean;
  /** ... which computes so many of its tokens, those included that come back from the host. */
  readonly stepTokens: number;
  /** Tokens whose keys and values the host has, while it waits. */
  readonly swappedTokens: number;
  /** Blocks it holds now. */
  readonly blockCount: number;
  readonly next: SequenceView | undefined;
}

/**
 * What a scheduler decides with: the queues, lookups in the cache, the clock, and the actions that put a step together.
 * The replica records which of them a plan uses (see `PlanValidity`).
 */
export interface SchedulerContext {
  /** Time of the plan. A plan that reads it is valid for one step. */
  readonly now: Nanos;
  /** In order of arrival, those that were preempted in front. */
  readonly firstWaiting: SequenceView | undefined;
  readonly waitingCount: number;
  readonly running: readonly SequenceView[];
  readonly blockTokens: number;
  readonly totalBlocks: number | undefined;
  /** Free blocks and those that could be evicted. */
  readonly availableBlocks: number;
  /** Blocks in use by requests. */
  readonly referencedBlocks: number;
  /** What admission would find cached for it; changes nothing. */
  cachedTokens(sequence: SequenceView): number;
  /**
   * Lets a waiting request run: holds its cached prefix, allocates for at most `tokens` more (all by default) and puts
   * them into this step. False, and nothing has changed, if the blocks are not there, or if less than `spareBlocks` would
   * be left.
   */
  admit(sequence: SequenceView, tokens?: number, spareBlocks?: number): boolean;
  /** Puts at most `tokens` more of a running request into this step. False, and nothing has changed, if they do not fit. */
  schedule(sequence: SequenceView, tokens?: number): boolean;
  /** Blocks that the host still has room for: what `preempt(…, "swap")` needs. */
  readonly freeHostBlocks: number;
  /**
   * Sends a running request back to the queue, to its head or its end. Its blocks are given back; with `swap` their
   * contents go to the host, and come back before its next step.
   */
  preempt(sequence: SequenceView, how: "recompute" | "swap", place?: "head" | "tail"): void;
  /** Takes what is cached of the request's marked prefix out of the cache, as far as nobody uses it. */
  deletePrefix(request: RequestView): void;
  /** Gives a waiting request up; it counts as refused. */
  refuse(sequence: SequenceView, why: string): void;
}

/**
 * How long a plan stays valid: undefined = for one step. `until-change` = with the same inputs, the next plans are this
 * one again, whatever they would change in the scheduler's own state (a count of steps, random numbers drawn).
 *
 * The inputs are not the scheduler's concern: the replica recorded which of them the plan used. The plan is made again
 * once a request finishes or needs a block; if it admitted, preempted or refused a request; if it read the clock; if it
 * read the cache (`availableBlocks`, `cachedTokens`, a failed `admit` …) and the cache has changed since; if it read the
 * waiting queue, or the scheduler has `arrived`, and a request has arrived.
 */
export type PlanValidity = "until-change" | undefined;

/** Decides which requests, and how many of their tokens, enter the next step. */
export interface Scheduler {
  /** Puts the next step together with the actions of `context`; returns how long the plan stays valid. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a scheduler without a statement of validity returns nothing
  plan(context: SchedulerContext): PlanValidity | void;
  /** So many more steps have run as the last plan put them together, without a call of `plan` for each. */
  repeated?(steps: number): void;
  /** A request has arrived. */
  arrived?(sequence: SequenceView, now: Nanos): void;
  finished?(sequence: SequenceView, now: Nanos): void;
}

export interface SchedulerPlugin extends Plugin {
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** `options` has a value for every option that the plug-in declares. */
  create(given: {
    readonly random: Random;
    readonly rules: Rules;
    readonly options: Readonly<Record<string, number>>;
  }): Scheduler;
}
