import type {
  PlanValidity,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import {
  firstNotInStep,
  lastAdmitted,
  preemptUntilScheduled,
  refuseOutOfBlocks,
  refuseTooLong,
  watermarkBlocks,
} from "./out-of-blocks.ts";

/**
 * A step is either prefill or decode. Waiting requests are admitted first, in order of arrival and with whole prompts only,
 * within token budget, `max-num-seqs` and available blocks; if none can be admitted, all running requests decode. When no
 * block can be allocated for one, the request admitted last is preempted for recomputation or, with `swap`, swapped out.
 * Swapped requests are admitted before new ones, in a decode step.
 *
 * A prompt that is longer than the token budget is computed in a separate step (vLLM refuses it; it requires a
 * budget of at least the maximum model length). Cached tokens do not count in the budget.
 *
 * Source: vLLM v0, `Scheduler._schedule_default` in vllm/core/scheduler.py.
 */
class FirstComeFirstServed implements Scheduler {
  readonly #rules: Rules;
  readonly #maxTokens: number;
  readonly #maxRunning: number;
  readonly #watermark: number;
  readonly #swaps: boolean;

  constructor(rules: Rules, options: Readonly<Record<string, number>>) {
    this.#rules = rules;
    this.#maxTokens = options["max-num-batched-tokens"];
    this.#maxRunning = options["max-num-seqs"];
    this.#watermark = options["watermark"];
    this.#swaps = options["swap"] === 1;
  }

  plan(context: SchedulerContext): PlanValidity {
    while (context.waitingCount > 0 || context.running.length > 0) {
      if (this.#firstSwapped(context) === undefined && this.#admitPrompts(context)) break;
      const preempted = this.#decode(context);
      const isEmpty = context.running.length === 0;
      if (!preempted || isEmpty) this.#swapIn(context);
      // Empty if all running requests were refused: their blocks are available now.
      if (context.running.length > 0) break;
    }
    return "until-change";
  }

  /** Admits whole prompts, in order; returns whether one was admitted. */
  #admitPrompts(context: SchedulerContext): boolean {
    const { running } = context;
    let budget = this.#maxTokens;
    let admitted = 0;
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#maxRunning) {
        context.limitedBy("max-num-seqs");
        break;
      }
      if (admitted > 0 && !this.#fits(context, first, budget)) {
        context.limitedBy("token-budget");
        break;
      }
      if (context.admit(first, undefined, watermarkBlocks(context, this.#watermark))) {
        budget -= first.stepTokens;
        admitted++;
      } else if (running.length === 0) {
        refuseOutOfBlocks(context, first);
      } else break;
    }
    return admitted > 0;
  }

  #fits(context: SchedulerContext, sequence: SequenceView, budget: number): boolean {
    if (budget <= 0) return false;
    return sequence.knownTokens <= budget || sequence.knownTokens - context.cachedTokens(sequence) <= budget;
  }

  /** Schedules a token of every running request; returns whether one was preempted. */
  #decode(context: SchedulerContext): boolean {
    const { running } = context;
    let preemptions = 0;
    for (let i = 0; i < running.length; ) {
      const sequence = running[i];
      const tokens = sequence.knownTokens - sequence.computedTokens;
      if (context.schedule(sequence, tokens)) i++;
      else {
        preemptions += preemptUntilScheduled(context, sequence, tokens, lastAdmitted, this.#swaps).preempted;
        i = firstNotInStep(running);
      }
    }
    return preemptions > 0;
  }

  /** Admits swapped requests, in order, within `max-num-seqs` and available blocks. */
  #swapIn(context: SchedulerContext): void {
    for (let next = this.#firstSwapped(context); next; next = this.#firstSwapped(context)) {
      if (context.running.length >= this.#maxRunning) return;
      if (context.admit(next, undefined, watermarkBlocks(context, this.#watermark))) continue;
      if (context.running.length > 0) return;
      refuseOutOfBlocks(context, next);
    }
  }

  /** The first swapped request of the queue; preempted requests are at its head. */
  #firstSwapped({ firstWaiting }: SchedulerContext): SequenceView | undefined {
    if (!this.#swaps) return undefined;
    for (let sequence = firstWaiting; sequence && sequence.preemptions > 0; sequence = sequence.next)
      if (sequence.swappedTokens > 0) return sequence;
    return undefined;
  }
}

export const fcfs: SchedulerPlugin = {
  name: "fcfs",
  about: "continuous batching in order of arrival; steps are prefill (whole prompts) or decode, prefill first",
  source: "vLLM (v0), nano-vllm, LMDeploy",
  options: {
    "max-num-batched-tokens": { about: "maximum tokens per prefill step", default: 8192, min: 1 },
    "max-num-seqs": { about: "maximum running requests", default: 256, min: 1 },
    watermark: {
      about: "share of all blocks that stay available after an admission",
      default: 0.01,
      max: 1,
      fraction: true,
    },
    swap: { about: "1: preempted requests are swapped out to host memory, 0: they are recomputed", default: 0, max: 1 },
  },
  create: ({ rules, options }) => new FirstComeFirstServed(rules, options),
};
