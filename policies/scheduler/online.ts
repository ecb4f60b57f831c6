import type {
  PlanValidity,
  Scheduler,
  SchedulerContext,
  SchedulerPlugin,
  SequenceView,
} from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";
import { promptsPerStep } from "./offline.ts";
import { lastAdmitted, makeRoom, refuseForRoom, refuseTooLong } from "./room.ts";

/**
 * Round robin: all requests are in one queue, to which arrivals are appended. A step has the first `maxBatchSize` of them,
 * new ones with whole prompts and the others with a token each; then these are moved to the end. New requests without
 * blocks are skipped. When a running request finds no block, the one admitted last is preempted, keeps its place in the
 * queue, and no request is admitted in that step.
 *
 * Source: roseinfer, OnlineScheduler. There a full cache is an error.
 */
class RoundRobin implements Scheduler {
  readonly #rules: Rules;
  readonly #maxBatchSize: number;
  /** Not 0: prefill steps come first, with so many prompts each. */
  readonly #promptsPerStep: number;
  /** Place in the queue: number of the request's last move to its end. */
  readonly #cameAs = new WeakMap<SequenceView, number>();
  #came = 0;

  constructor(rules: Rules, maxBatchSize: number, promptsPerStep: number) {
    this.#rules = rules;
    this.#maxBatchSize = maxBatchSize;
    this.#promptsPerStep = promptsPerStep;
  }

  plan(context: SchedulerContext): PlanValidity {
    if (this.#promptsPerStep === 0 || !this.#admitPrompts(context)) this.#serveInTurn(context);
    // Without waiting requests every running one has a turn in every step, and in the same order.
    const haveTurns = context.waitingCount === 0 && context.running.length <= this.#maxBatchSize;
    return haveTurns ? "until-change" : undefined;
  }

  #serveInTurn(context: SchedulerContext): void {
    const { running } = context;
    const line = [...running].sort((a, b) => this.#placeOf(a) - this.#placeOf(b));
    let seats = this.#maxBatchSize;
    let mayAdmit = true;
    let wentBack = false;
    for (let at = 0; seats > 0; ) {
      const first = mayAdmit || running.length === 0 ? context.firstWaiting : undefined;
      const next: SequenceView | undefined = line[at];
      if (first === undefined && next === undefined) return;
      if (first && (!next || this.#placeOf(first) < this.#placeOf(next))) {
        if (refuseTooLong(context, first, this.#rules)) continue;
        if (context.admit(first)) {
          this.arrived(first);
          seats--;
        } else if (running.length === 0) refuseForRoom(context, first);
        else mayAdmit = false;
        continue;
      }
      at++;
      // It may have been preempted for a request before it.
      if (wentBack && (next.inStep || !running.includes(next))) continue;
      const tokens = next.knownTokens - next.computedTokens;
      const room = context.schedule(next, tokens) ? undefined : makeRoom(context, next, tokens, lastAdmitted);
      if (room) {
        wentBack = true;
        mayAdmit = false;
      }
      if (room?.isScheduled === false) continue;
      this.arrived(next);
      seats--;
    }
  }

  /** A prefill step; returns whether there is one. */
  #admitPrompts(context: SchedulerContext): boolean {
    const most = Math.min(this.#promptsPerStep, this.#maxBatchSize);
    let prompts = 0;
    for (let first = context.firstWaiting; first && prompts < most; first = context.firstWaiting) {
      if (refuseTooLong(context, first, this.#rules)) continue;
      if (!context.admit(first)) break;
      this.arrived(first);
      prompts++;
    }
    return prompts > 0;
  }

  /** Moves the request to the end of the queue. */
  arrived(sequence: SequenceView): void {
    this.#cameAs.set(sequence, ++this.#came);
  }

  #placeOf(sequence: SequenceView): number {
    return this.#cameAs.get(sequence) ?? 0;
  }
}

export const online: SchedulerPlugin = {
  name: "online",
  about: "round robin: up to a batch size of requests in turn, new ones with their prompts, others with a token",
  source: "roseinfer (OnlineScheduler)",
  options: { "max-batch-size": { about: "most requests of a step", default: 8, min: 1 }, ...promptsPerStep },
  create: ({ rules, options }) => new RoundRobin(rules, options["max-batch-size"], options["prompts-per-step"]),
};
