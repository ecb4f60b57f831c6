import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";
import type { Waiting } from "./waiting-order.ts";

/** A waiting request and its sequence. */
export interface QueuedSequence extends Waiting {
  readonly sequence: SequenceView;
}

/** All waiting requests, with their cached tokens. */
export function queued(context: SchedulerContext): QueuedSequence[] {
  const all: QueuedSequence[] = [];
  for (let sequence = context.firstWaiting; sequence !== undefined; sequence = sequence.next) {
    const { keys, keyStart, promptBlocks } = sequence.request;
    all.push({
      sequence,
      tokens: keys.subarray(keyStart, keyStart + promptBlocks),
      cachedTokens: context.cachedTokens(sequence),
      blockTokens: context.blockTokens,
      inputTokens: sequence.knownTokens,
    });
  }
  return all;
}

/** All waiting requests, in queue order. */
export function allWaiting({ firstWaiting }: SchedulerContext): SequenceView[] {
  const all: SequenceView[] = [];
  for (let sequence = firstWaiting; sequence !== undefined; sequence = sequence.next) all.push(sequence);
  return all;
}
