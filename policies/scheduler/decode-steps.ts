import type { SchedulerContext, SequenceView } from "../../core/plugins/index.ts";

/** Whether a running request has its prompt and writes its answer, a token a step. */
export const isDecoding = ({ generatedTokens, knownTokens, computedTokens }: SequenceView): boolean =>
  generatedTokens > 0 && computedTokens >= knownTokens - 1;

/** A token for everybody who decodes; returns whether somebody got one. */
export function decodeAll(context: SchedulerContext): boolean {
  let isAny = false;
  for (const sequence of context.running) if (isDecoding(sequence) && context.schedule(sequence)) isAny = true;
  return isAny;
}

/** Blocks that everybody's next token takes. */
export function blocksToDecode({ running, blockTokens }: SchedulerContext): number {
  let blocks = 0;
  for (const each of running) if (isDecoding(each) && each.knownTokens > each.blockCount * blockTokens) blocks++;
  return blocks;
}
