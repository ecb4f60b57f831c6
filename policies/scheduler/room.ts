import { blocksOf } from "../../core/cache/request.ts";
import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";
import type { Rules } from "../../core/plugins/rules.ts";

/** Chooses of several running requests the one that makes room when another one cannot go on. */
export type VictimOf = (running: readonly SequenceView[]) => SequenceView;

/** Whoever was admitted last. */
export const lastAdmitted: VictimOf = (running) => running[running.length - 1];

/** What `makeRoom` did. */
export interface MadeRoom {
  /** The request is in the step. */
  readonly isScheduled: boolean;
  /** How many went back to the queue, it itself included ... */
  readonly preempted: number;
  /** ... and tokens of the step that were theirs. */
  readonly freedTokens: number;
}

/**
 * For a running request whose next `tokens` have no blocks: sends victims back to the queue until they have. The request
 * may be a victim itself. Alone, it is refused: nobody is left to make room. With `swap` a victim goes to the host if
 * there is room for it, else what it has is computed again.
 */
export function makeRoom(
  context: SchedulerContext,
  sequence: SequenceView,
  tokens: number,
  victimOf: VictimOf,
  swap = false,
): MadeRoom {
  const { running } = context;
  let preempted = 0;
  let freedTokens = 0;
  do {
    if (running.length === 1) {
      refuseForRoom(context, sequence);
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

/** The place of the first running request that is not in the step, or behind the last one. */
export function firstOutOfStep(running: readonly SequenceView[]): number {
  let i = 0;
  while (i < running.length && running[i].inStep) i++;
  return i;
}

/** Refuses a waiting request for which an empty cache has no room; returns whether it did. */
export function refuseTooLong(context: SchedulerContext, sequence: SequenceView, rules: Rules): boolean {
  if (!isTooLong(context, sequence, rules)) return false;
  refuseForRoom(context, sequence);
  return true;
}

/** Whether `refuseTooLong` would refuse it: it does so also when no seat is free. */
export function isTooLong(
  { totalBlocks, blockTokens }: SchedulerContext,
  sequence: SequenceView,
  rules: Rules,
): boolean {
  return totalBlocks !== undefined && blocksOf(admittedTokens(sequence, rules), blockTokens) > totalBlocks;
}

/** Tokens that have blocks once all of a waiting request is admitted, by the rules those of its longest answer. */
export function admittedTokens({ request, knownTokens }: SequenceView, rules: Rules): number {
  if (rules.reserve === "grow") return knownTokens;
  return Math.max(knownTokens, request.inputTokens + request.maxOutputTokens - 1);
}

/** Refuses a request for which there is no room although nobody else runs. */
export function refuseForRoom(context: SchedulerContext, sequence: SequenceView): void {
  const whose = sequence.generatedTokens > 0 ? "its answer" : "it";
  context.refuse(sequence, `${whose} needs more blocks than the cache has`);
}

/** Blocks that an admission leaves free, so that those that run can grow: a share of all; none where nobody runs. */
export function watermarkBlocks({ totalBlocks, running }: SchedulerContext, share: number): number {
  return totalBlocks === undefined || running.length === 0 ? 0 : Math.floor(share * totalBlocks);
}
