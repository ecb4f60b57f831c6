import { InputError } from "../core/errors.ts";
import type { Trace } from "../core/trace/trace.ts";

/**
 * The same requests with all lengths divided, rounded up: a content of 512 tokens has 512 / `by` then. Arrivals, contents and
 * what of them is shared stay, so that an engine can serve in minutes what would take it hours.
 *
 * @throws InputError if contents cannot be divided so
 */
export function shortened(trace: Trace, by: number): Trace {
  const { unitTokens, optional } = trace;
  if (by === 1) return trace;
  if (unitTokens === 1)
    throw new InputError(`lengths cannot be divided by ${by}: the trace is of tokens, not of contents`);
  // A content of one token would be that token, whatever precedes it.
  if (unitTokens % by !== 0 || by === unitTokens)
    throw new InputError(
      `lengths cannot be divided by ${by}: contents have ${unitTokens} tokens, of which 2 or more must be left`,
    );
  const divided = (tokens: Uint32Array) => tokens.map((count) => Math.ceil(count / by));
  return {
    ...trace,
    unitTokens: unitTokens / by,
    inputTokens: divided(trace.inputTokens),
    outputTokens: divided(trace.outputTokens),
    maxOutputTokens: divided(trace.maxOutputTokens),
    optional: { ...optional, ...(optional.markedTokens && { markedTokens: divided(optional.markedTokens) }) },
  };
}
