import { blocksOf } from "../../core/cache/request.ts";
import type {
  PlanValidity,
  PluginOption,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import {
  admittedTokens,
  firstNotInStep,
  isTooLong,
  preemptUntilScheduled,
  refuseOutOfBlocks,
  refuseTooLong,
  type VictimOf,
  watermarkBlocks,
} from "./out-of-blocks.ts";

/**
 * Names and meanings are vLLM's. 2048 and 128 are the defaults of its `SchedulerConfig`; its server chooses larger ones that
 * depend on the GPU, so they must be given for a comparison with a real run. vLLM has a watermark in v0 (0.01) and in versions
 * of 2026; the first versions of v1 had none.
 */
export const continuousOptions = {
  "max-num-batched-tokens": { about: "maximum tokens per step", default: 2048, min: 1 },
  "max-num-seqs": { about: "maximum running requests", default: 128, min: 1 },
  "long-prefill-token-threshold": {
    about: "maximum tokens of one prompt per step; 0: limited by the token budget only",
    default: 0,
  },
  watermark: {
    about: "share of all blocks that stay available after an admission",
    default: 0,
    max: 1,
    fraction: true,
  },
  "reserve-full-isl": {
    about:
      "1: a request is admitted only if blocks for its whole prompt are available (vLLM's scheduler_reserve_full_isl); 0: for its first chunk",
    default: 0,
    max: 1,
  },
  "async-scheduling": {
    about:
      "1: a step is planned while the previous one runs, 0: when the previous one has ended; no effect with pipeline parallelism",
    default: 0,
    max: 1,
  },
} as const satisfies Record<string, PluginOption>;

type ContinuousOptions = Readonly<Record<string, number>>;

/** Order of admission and of preemption, in which schedulers with continuous batching differ. */
export interface Precedence {
  /** The waiting request to be admitted next. */
  first(context: SchedulerContext): SequenceView | undefined;
  /** The running request that is preempted when no block can be allocated for another one. */
  readonly victimOf: VictimOf;
  /** Whether a waiting request may preempt this running one to be admitted; absent: none may. */
  mayReplace?(waiting: SequenceView, running: SequenceView): boolean;
  /** `first` reads the clock. */
  readonly changesWithTime?: boolean;
  arrived?(sequence: SequenceView): void;
}

/**
 * Continuous batching with chunked prefill under one token budget: running requests are scheduled first, in the order of
 * their admission, each with one token or the next chunk of its prompt; waiting requests get the rest of the budget. A
 * first waiting request that cannot be admitted blocks all others. When no block can be allocated for a running request,
 * others are preempted for recomputation, and no request is admitted in that step.
 *
 * Source: vLLM v1, `Scheduler.schedule` in vllm/v1/core/sched/scheduler.py. There, a request that is its own victim also
 * ends the step for the requests behind it; here they are scheduled.
 *
 * With `async-scheduling` (on by default in vLLM 0.19) the engine plans a step while the previous one runs: requests that
 * arrive during the previous step are not considered, and a request that finishes in it counts in `max-num-seqs` for one
 * more step.
 */
export class ContinuousBatching implements Scheduler {
  readonly #precedence: Precedence;
  readonly #rules: Rules;
  readonly #maxTokens: number;
  readonly #maxRunning: number;
  readonly #maxChunk: number;
  readonly #watermark: number;
  readonly #reservesFullPrompt: boolean;
  readonly #isAsync: boolean;
  /** With `async-scheduling`: requests that arrived since the last plan, and the number that finished. */
  readonly #unseen = new Set<SequenceView>();
  #justFinished = 0;
  /** Tokens that may be added to the step. */
  #budget = 0;
  #preempted = false;

  constructor(precedence: Precedence, rules: Rules, options: ContinuousOptions) {
    this.#precedence = precedence;
    this.#rules = rules;
    this.#maxTokens = options["max-num-batched-tokens"];
    this.#maxRunning = options["max-num-seqs"];
    this.#maxChunk = options["long-prefill-token-threshold"] || this.#maxTokens;
    this.#watermark = options["watermark"];
    this.#reservesFullPrompt = options["reserve-full-isl"] === 1;
    this.#isAsync = options["async-scheduling"] === 1;
  }

  plan(context: SchedulerContext): PlanValidity {
    // A pipeline plans a batch when one of those in flight has ended.
    if (context.batchesInFlight > 1) this.#resetUnseen();
    // The next plan considers the requests that this one ignores.
    const considersAll = (this.#unseen.size === 0 && this.#justFinished === 0) || context.waitingCount === 0;
    this.#budget = this.#maxTokens;
    this.#preempted = false;
    const { running } = context;
    for (let i = 0; i < running.length && this.#budget > 0; ) {
      const sequence = running[i];
      const tokens = Math.min(sequence.knownTokens - sequence.computedTokens, this.#maxChunk, this.#budget);
      if (context.schedule(sequence, tokens)) {
        this.#budget -= tokens;
        i++;
      } else {
        const { isScheduled, preempted, freedTokens } = preemptUntilScheduled(
          context,
          sequence,
          tokens,
          this.#precedence.victimOf,
        );
        this.#budget += freedTokens - (isScheduled ? tokens : 0);
        if (preempted > 0) this.#preempted = true;
        i = firstNotInStep(running);
      }
    }
    if (!this.#preempted || running.length === 0) this.#admit(context);
    this.#resetUnseen();
    return considersAll ? "until-change" : undefined;
  }

  #resetUnseen(): void {
    if (this.#unseen.size > 0) this.#unseen.clear();
    this.#justFinished = 0;
  }

  arrived(sequence: SequenceView): void {
    if (this.#isAsync) this.#unseen.add(sequence);
    this.#precedence.arrived?.(sequence);
  }

  finished(): void {
    if (this.#isAsync) this.#justFinished++;
  }

  /** Admits waiting requests in order, within token budget, `max-num-seqs` and available blocks. */
  #admit(context: SchedulerContext): void {
    const { running } = context;
    // With `max-num-seqs` running, the order is not needed; the plan stays valid because it does not read the clock.
    if (this.#precedence.changesWithTime === true && this.#canAdmitNone(context)) {
      context.limitedBy("max-num-seqs");
      return;
    }
    while (this.#budget > 0) {
      const first = this.#precedence.first(context);
      if (first === undefined) return;
      // Without running requests no step is under way.
      if (running.length === 0) this.#resetUnseen();
      if (this.#unseen.has(first)) return;
      const runningCount = running.length + context.inFlightCount;
      const isFull = runningCount >= this.#maxRunning;
      const countsAsFull = runningCount + this.#justFinished >= this.#maxRunning;
      if (countsAsFull) context.limitedBy("max-num-seqs");
      if (countsAsFull && !isFull) return;
      if (refuseTooLong(context, first, this.#rules)) continue;
      const tokens = Math.min(this.#maxChunk, this.#budget);
      const spare = this.#spareBlocks(context, first, tokens);
      if (!isFull && context.admit(first, tokens, spare)) {
        this.#budget -= first.stepTokens;
      } else if (runningCount === 0) {
        refuseOutOfBlocks(context, first);
      } else if (!this.#replaceFor(context, first, tokens, spare)) return;
    }
    context.limitedBy("token-budget");
  }

  /** Whether no waiting request can be admitted or refused, whatever their order. */
  #canAdmitNone(context: SchedulerContext): boolean {
    const runningCount = context.running.length + context.inFlightCount;
    if (this.#precedence.mayReplace !== undefined || runningCount < this.#maxRunning) return false;
    for (let each = context.firstWaiting; each; each = each.next)
      if (isTooLong(context, each, this.#rules)) return false;
    return true;
  }

  /** Blocks that stay available after an admission: the watermark and, with `reserve-full-isl`, those of its later chunks. */
  #spareBlocks(context: SchedulerContext, first: SequenceView, tokens: number): number {
    const watermark = watermarkBlocks(context, this.#watermark);
    const { knownTokens } = first;
    if (!this.#reservesFullPrompt || knownTokens <= tokens || this.#rules.reserve === "worst-case") return watermark;
    const { blockTokens } = context;
    const chunkEnd = Math.min(knownTokens, context.cachedTokens(first) + tokens);
    return watermark + blocksOf(knownTokens, blockTokens) - blocksOf(chunkEnd, blockTokens);
  }

  /**
   * Preempts the last running request for a waiting one that may replace it, if all requests that it may replace free enough
   * blocks together. Their cached blocks do not count, because others may reference them.
   */
  #replaceFor(context: SchedulerContext, first: SequenceView, tokens: number, spareBlocks: number): boolean {
    const { mayReplace, victimOf } = this.#precedence;
    const { running, blockTokens } = context;
    if (mayReplace === undefined || running.length === 0) return false;
    const victim = victimOf(running);
    if (!mayReplace(first, victim)) return false;
    const cached = context.cachedTokens(first);
    const grows = this.#rules.reserve === "grow";
    const end = grows ? Math.min(first.knownTokens, cached + tokens) : admittedTokens(first, this.#rules);
    let missing = blocksOf(end, blockTokens) - Math.floor(cached / blockTokens) + spareBlocks - context.availableBlocks;
    for (const sequence of running) {
      if (!mayReplace(first, sequence)) continue;
      missing -= sequence.blockCount - Math.floor(sequence.cachedTokens / blockTokens);
    }
    if (missing > 0) return false;
    this.#budget += victim.stepTokens;
    this.#preempted = true;
    context.preempt(victim, "recompute");
    return true;
  }
}

/** Whether request `a` precedes request `b`. */
export type IsBefore = (a: SequenceView, b: SequenceView) => boolean;

/** The waiting request that precedes all others. */
export function firstWaitingBy({ firstWaiting }: SchedulerContext, isBefore: IsBefore): SequenceView | undefined {
  let first = firstWaiting;
  for (let other = first?.next; other; other = other.next) if (isBefore(other, first!)) first = other;
  return first;
}

/** The running request that all others precede. */
export function lastRunningBy(running: readonly SequenceView[], isBefore: IsBefore): SequenceView {
  let last = running[0];
  for (let i = 1; i < running.length; i++) if (isBefore(last, running[i])) last = running[i];
  return last;
}
