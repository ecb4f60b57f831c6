import type { PlanValidity, Scheduler, SchedulerContext } from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { firstOutOfStep, lastAdmitted, makeRoom, refuseForRoom, refuseTooLong } from "./room.ts";

/**
 * One batch after the other: whole prompts of up to `batchSize` requests, `promptsPerStep` in one step, in order of arrival
 * and as far as their blocks are there; then only their answers, until the last one has ended. Whoever finds no block on
 * the way sends the last to be admitted back to the queue, for the next batch.
 */
export class BatchByBatch implements Scheduler {
  readonly #rules: Rules;
  readonly #batchSize: number;
  readonly #promptsPerStep: number;
  /** The last step was full of prompts, and others of the batch wait. */
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
        this.#writeAnswers(context);
        if (running.length > 0) break;
      }
      if (this.#admit(context) > 0 || running.length === 0) break;
    }
    return this.#isFilling ? undefined : "until-change";
  }

  #writeAnswers(context: SchedulerContext): void {
    const { running } = context;
    for (let i = 0; i < running.length; ) {
      const sequence = running[i];
      const tokens = sequence.knownTokens - sequence.computedTokens;
      if (context.schedule(sequence, tokens)) i++;
      else {
        makeRoom(context, sequence, tokens, lastAdmitted);
        i = firstOutOfStep(running);
      }
    }
  }

  /** Puts the prompts of a step into it; returns how many there are. */
  #admit(context: SchedulerContext): number {
    const { running } = context;
    let prompts = 0;
    this.#isFilling = false;
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#batchSize) break;
      if (prompts === this.#promptsPerStep) {
        this.#isFilling = true;
        break;
      }
      if (context.admit(first)) prompts++;
      else if (running.length > 0) break;
      else refuseForRoom(context, first);
    }
    return prompts;
  }
}
