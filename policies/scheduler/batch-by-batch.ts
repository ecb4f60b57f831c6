import type { PlanValidity, Scheduler, SchedulerContext } from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import {
  firstNotInStep,
  lastAdmitted,
  preemptUntilScheduled,
  refuseOutOfBlocks,
  refuseTooLong,
} from "./out-of-blocks.ts";

/**
 * One batch after the other: whole prompts of up to `batchSize` requests, `promptsPerStep` per step, in order of arrival and
 * within available blocks; then decode steps, until all of them have finished. When no block can be allocated for a request,
 * the one admitted last is preempted and belongs to the next batch.
 */
export class BatchByBatch implements Scheduler {
  readonly #rules: Rules;
  readonly #batchSize: number;
  readonly #promptsPerStep: number;
  /** The last step computed `promptsPerStep` prompts, and more requests of the batch wait. */
  #isFilling = false;

  constructor(rules: Rules, batchSize: number, promptsPerStep = Number.POSITIVE_INFINITY) {
    this.#rules = rules;
    this.#batchSize = batchSize;
    this.#promptsPerStep = promptsPerStep;
  }

  plan(context: SchedulerContext): PlanValidity {
    const { running } = context;
    for (;;) {
      if (running.length > 0 && !this.#isFilling) {
        this.#decode(context);
        if (running.length > 0) break;
      }
      if (this.#admit(context) > 0 || running.length === 0) break;
    }
    return this.#isFilling ? undefined : "until-change";
  }

  #decode(context: SchedulerContext): void {
    const { running } = context;
    for (let i = 0; i < running.length; ) {
      const sequence = running[i];
      const tokens = sequence.knownTokens - sequence.computedTokens;
      if (context.schedule(sequence, tokens)) i++;
      else {
        preemptUntilScheduled(context, sequence, tokens, lastAdmitted);
        i = firstNotInStep(running);
      }
    }
  }

  /** Admits the prompts of a step; returns their number. */
  #admit(context: SchedulerContext): number {
    const { running } = context;
    let prompts = 0;
    this.#isFilling = false;
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#batchSize) {
        context.limitedBy("max-num-seqs");
        break;
      }
      if (prompts === this.#promptsPerStep) {
        this.#isFilling = true;
        break;
      }
      if (context.admit(first)) prompts++;
      else if (running.length > 0) break;
      else refuseOutOfBlocks(context, first);
    }
    return prompts;
  }
}
