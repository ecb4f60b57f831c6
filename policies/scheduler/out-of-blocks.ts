import { blocksOf } from "../../core/cache/request.ts";
import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";

/** Chooses the running request that is preempted when no block can be allocated for another one. */
export type VictimOf = (running: readonly SequenceView[]) => SequenceView;

/** The request admitted last. */
export const lastAdmitted: VictimOf = (running) => running[running.length - 1];

/** Result of `makeRoom`. */
export interface Preemptions {
  /** The request is in the step. */
  readonly isScheduled: boolean;
  /** Number of preempted requests, the request itself included. */
  readonly preempted: number;
  /** Their tokens in the step. */
  readonly freedTokens: number;
}

/**
 * Preempts victims until there are enough free blocks for the next `tokens` of a running request, and schedules it. The
 * request may be a victim itself; the only running request is refused, unless those of batches in flight have blocks. With `swap` a victim is swapped out if host memory has
 * enough free blocks, else recomputed.
 */
export function preemptUntilScheduled(
  context: SchedulerContext,
  sequence: SequenceView,
  tokens: number,
  victimOf: VictimOf,
  swap = false,
): Preemptions {
  const { running } = context;
  let preempted = 0;
  let freedTokens = 0;
  do {
    if (running.length === 1 && context.inFlightCount === 0) {
      refuseOutOfBlocks(context, sequence);
      return { isScheduled: false, preempted, freedTokens };
    }
    const victim = victimOf(running);
    preempted++;
    freedTokens += victim.stepTokens;
    const swaps = swap && blocksOf(victim.computedTokens, context.blockTokens) <= context.freeHostBlocks;
    context.preempt(victim, swaps ? "swap" : "recompute");
    if (victim === sequence) return { isScheduled: false, preempted, freedTokens };
  } while (!context.schedule(sequence, tokens));
  return { isScheduled: true, preempted, freedTokens };
}

/** Index of the first running request that is not in the step, or the number of running requests. */
export function firstNotInStep(running: readonly SequenceView[]): number {
  let i = 0;
  while (i < running.length && running[i].inStep) i++;
  return i;
}

/** Refuses a waiting request that needs more blocks than the cache has; returns whether it did. */
export function refuseTooLong(context: SchedulerContext, sequence: SequenceView, rules: Rules): boolean {
  if (!isTooLong(context, sequence, rules)) return false;
  refuseOutOfBlocks(context, sequence);
  return true;
}

/** Whether `refuseTooLong` would refuse the request. */
export function isTooLong(
  { totalBlocks, blockTokens }: SchedulerContext,
  sequence: SequenceView,
  rules: Rules,
): boolean {
  return totalBlocks !== undefined && blocksOf(admittedTokens(sequence, rules), blockTokens) > totalBlocks;
}

/** Tokens with blocks after the admission of a whole request; with `reserve=worst-case` those of its longest output. */
export function admittedTokens({ request, knownTokens }: SequenceView, rules: Rules): number {
  if (rules.reserve === "grow") return knownTokens;
  return Math.max(knownTokens, request.inputTokens + request.maxOutputTokens - 1);
}

/** Refuses a request for which there are too few blocks although no other one runs. The reason is a key of the JSON report. */
export function refuseOutOfBlocks(context: SchedulerContext, sequence: SequenceView): void {
  const subject = sequence.generatedTokens > 0 ? "its answer" : "it";
  context.refuse(sequence, `${subject} needs more blocks than the cache has`);
}

/** Blocks that stay available for running requests after an admission: a share of all; 0 if none runs. */
export function watermarkBlocks({ totalBlocks, running, inFlightCount }: SchedulerContext, share: number): number {
  return totalBlocks === undefined || running.length + inFlightCount === 0 ? 0 : Math.floor(share * totalBlocks);
}
