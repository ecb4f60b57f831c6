import type {
  PlanValidity,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { promptsPerStep } from "./offline.ts";
import { lastAdmitted, preemptUntilScheduled, refuseOutOfBlocks, refuseTooLong } from "./out-of-blocks.ts";

/**
 * Round robin: waiting and running requests are in one queue, to which arrivals are appended. A step computes the first
 * `maxBatchSize` of them, new ones with whole prompts and the others with one token each, and moves them to the end. New
 * requests for which no blocks are available are skipped. When no block can be allocated for a running request, the one
 * admitted last is preempted and keeps its place in the queue, and no request is admitted in that step.
 *
 * Source: roseinfer, OnlineScheduler. There a full cache is an error.
 */
class RoundRobin implements Scheduler {
  readonly #rules: Rules;
  readonly #maxBatchSize: number;
  /** Maximum prompts of a prefill step, which then precedes decode steps; 0: prompts and decodes share steps. */
  readonly #promptsPerStep: number;
  /** Place in the queue: number of the request's last move to its end. */
  readonly #positions = new WeakMap<SequenceView, number>();
  #lastPosition = 0;

  constructor(rules: Rules, maxBatchSize: number, promptsPerStep: number) {
    this.#rules = rules;
    this.#maxBatchSize = maxBatchSize;
    this.#promptsPerStep = promptsPerStep;
  }

  plan(context: SchedulerContext): PlanValidity {
    if (this.#promptsPerStep === 0 || !this.#admitPrompts(context)) this.#scheduleInTurn(context);
    // Without waiting requests every step computes all running ones, in the same order.
    const allInStep = context.waitingCount === 0 && context.running.length <= this.#maxBatchSize;
    return allInStep ? "until-change" : undefined;
  }

  #scheduleInTurn(context: SchedulerContext): void {
    const { running } = context;
    const queue = [...running].sort((a, b) => this.#positionOf(a) - this.#positionOf(b));
    let remaining = this.#maxBatchSize;
    let mayAdmit = true;
    let hasPreempted = false;
    for (let at = 0; remaining > 0; ) {
      const first = mayAdmit || running.length === 0 ? context.firstWaiting : undefined;
      const next: SequenceView | undefined = queue[at];
      if (first === undefined && next === undefined) return;
      if (first && (!next || this.#positionOf(first) < this.#positionOf(next))) {
        if (refuseTooLong(context, first, this.#rules)) continue;
        if (context.admit(first)) {
          this.arrived(first);
          remaining--;
        } else if (running.length === 0) refuseOutOfBlocks(context, first);
        else mayAdmit = false;
        continue;
      }
      at++;
      // It may have been preempted for an earlier request of this step.
      if (hasPreempted && (next.inStep || !running.includes(next))) continue;
      const tokens = next.knownTokens - next.computedTokens;
      const preemptions = context.schedule(next, tokens)
        ? undefined
        : preemptUntilScheduled(context, next, tokens, lastAdmitted);
      if (preemptions) {
        hasPreempted = true;
        mayAdmit = false;
      }
      if (preemptions?.isScheduled === false) continue;
      this.arrived(next);
      remaining--;
    }
    context.limitedBy("max-num-seqs");
  }

  /** Plans a prefill step; returns whether a request was admitted. */
  #admitPrompts(context: SchedulerContext): boolean {
    const maxPrompts = Math.min(this.#promptsPerStep, this.#maxBatchSize);
    let prompts = 0;
    for (let first = context.firstWaiting; first && prompts < maxPrompts; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (!context.admit(first)) break;
      this.arrived(first);
      prompts++;
    }
    return prompts > 0;
  }

  /** Moves the request to the end of the queue. */
  arrived(sequence: SequenceView): void {
    this.#positions.set(sequence, ++this.#lastPosition);
  }

  #positionOf(sequence: SequenceView): number {
    return this.#positions.get(sequence) ?? 0;
  }
}

export const online: SchedulerPlugin = {
  name: "online",
  about: "round robin over waiting and running requests; a step computes a whole prompt or one token of each",
  source: "roseinfer (OnlineScheduler)",
  options: { "max-batch-size": { about: "maximum requests per step", default: 8, min: 1 }, ...promptsPerStep },
  create: ({ rules, options }) => new RoundRobin(rules, options["max-batch-size"], options["prompts-per-step"]),
};
