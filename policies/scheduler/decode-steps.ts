import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";

/** Whether a running request is decoding: its prompt is computed. */
export const isDecoding = ({ generatedTokens, knownTokens, computedTokens }: SequenceView): boolean =>
  generatedTokens > 0 && computedTokens >= knownTokens - 1;

/** Schedules a token of every decoding request; returns whether one was scheduled. */
export function decodeAll(context: SchedulerContext): boolean {
  let isAnyScheduled = false;
  for (const sequence of context.running) if (isDecoding(sequence) && context.schedule(sequence)) isAnyScheduled = true;
  return isAnyScheduled;
}

/** Blocks to allocate for the next token of every decoding request. */
export function blocksToDecode({ running, blockTokens }: SchedulerContext): number {
  let blocks = 0;
  for (const each of running) if (isDecoding(each) && each.knownTokens > each.blockCount * blockTokens) blocks++;
  return blocks;
}
