import type {
  PlanValidity,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { firstOutOfStep, lastAdmitted, makeRoom, refuseForRoom, refuseTooLong, watermarkBlocks } from "./room.ts";

/**
 * Steps of prompts and steps of answers take turns: whoever waits goes first, in order of arrival and whole prompts only,
 * as long as tokens, seats and blocks are there; if nobody can be admitted, all that run write a token. When one finds no
 * block, the last to be admitted goes back to the queue, to be computed again or, with `swap`, with its contents on the
 * host. Who is on the host comes back before anybody new is admitted, and into a step of answers.
 *
 * A prompt that is longer than the token budget has a step of its own (vLLM refuses it, and sets the budget so that none
 * is). What is cached of a prompt does not count.
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
      const preempted = this.#writeAnswers(context);
      const isEmpty = context.running.length === 0;
      if (!preempted || isEmpty) this.#swapIn(context);
      // Empty if all running requests were refused: there is room for others now.
      if (context.running.length > 0) break;
    }
    return "until-change";
  }

  /** Whole prompts, in order; returns whether there is one. */
  #admitPrompts(context: SchedulerContext): boolean {
    const { running } = context;
    let budget = this.#maxTokens;
    let admitted = 0;
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#maxRunning) break;
      if (admitted > 0 && !this.#fits(context, first, budget)) break;
      if (context.admit(first, undefined, watermarkBlocks(context, this.#watermark))) {
        budget -= first.stepTokens;
        admitted++;
      } else if (running.length === 0) {
        refuseForRoom(context, first);
      } else break;
    }
    return admitted > 0;
  }

  #fits(context: SchedulerContext, sequence: SequenceView, budget: number): boolean {
    if (budget <= 0) return false;
    return sequence.knownTokens <= budget || sequence.knownTokens - context.cachedTokens(sequence) <= budget;
  }

  /** A token for everybody who runs; returns whether somebody had to go back. */
  #writeAnswers(context: SchedulerContext): boolean {
    const { running } = context;
    let wentBack = 0;
    for (let i = 0; i < running.length; ) {
      const sequence = running[i];
      const tokens = sequence.knownTokens - sequence.computedTokens;
      if (context.schedule(sequence, tokens)) i++;
      else {
        wentBack += makeRoom(context, sequence, tokens, lastAdmitted, this.#swaps).preempted;
        i = firstOutOfStep(running);
      }
    }
    return wentBack > 0;
  }

  /** Those on the host, in order, as long as there are seats and blocks. */
  #swapIn(context: SchedulerContext): void {
    for (let next = this.#firstSwapped(context); next; next = this.#firstSwapped(context)) {
      if (context.running.length >= this.#maxRunning) return;
      if (context.admit(next, undefined, watermarkBlocks(context, this.#watermark))) continue;
      if (context.running.length > 0) return;
      refuseForRoom(context, next);
    }
  }

  /** The first in the queue whose contents are on the host: it is among those that were sent back, which are in front. */
  #firstSwapped({ firstWaiting }: SchedulerContext): SequenceView | undefined {
    if (!this.#swaps) return undefined;
    for (let sequence = firstWaiting; sequence && sequence.preemptions > 0; sequence = sequence.next)
      if (sequence.swappedTokens > 0) return sequence;
    return undefined;
  }
}

export const fcfs: SchedulerPlugin = {
  name: "fcfs",
  about: "continuous batching in order of arrival, whole prompts in steps of their own, before answers go on",
  source: "vLLM (v0), nano-vllm, LMDeploy",
  options: {
    "max-num-batched-tokens": { about: "most tokens of a step of prompts", default: 8192, min: 1 },
    "max-num-seqs": { about: "most requests that run at once", default: 256, min: 1 },
    watermark: { about: "share of all blocks that an admission leaves free", default: 0.01, max: 1, fraction: true },
    swap: { about: "1: who is sent back keeps its contents on the host, 0: it is computed again", default: 0, max: 1 },
  },
  create: ({ rules, options }) => new FirstComeFirstServed(rules, options),
};
