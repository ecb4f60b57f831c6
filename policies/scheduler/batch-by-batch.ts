import type { Scheduler, SchedulerContext } from "../../core/plugins.ts";
import type { Rules } from "../../core/rules.ts";
import { firstOutOfStep, lastAdmitted, makeRoom, refuseForRoom, refuseTooLong } from "./room.ts";

/**
 * One batch after the other: whole prompts of up to `batchSize` requests in one step, in order of arrival and as far as
 * their blocks are there; then only their answers, until the last one has ended. Whoever finds no block on the way sends
 * the last to be admitted back to the queue, for the next batch.
 */
export class BatchByBatch implements Scheduler {
  readonly #rules: Rules;
  readonly #batchSize: number;

  constructor(rules: Rules, batchSize: number) {
    this.#rules = rules;
    this.#batchSize = batchSize;
  }

  plan(context: SchedulerContext): void {
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
    if (running.length > 0) return;
    for (let first = context.firstWaiting; first; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (running.length >= this.#batchSize) return;
      if (context.admit(first)) continue;
      if (running.length > 0) return;
      refuseForRoom(context, first);
    }
  }

  /** Nobody is admitted while a batch runs. */
  isSteady(): boolean {
    return true;
  }
}
