import { InputError } from "../core/errors.ts";
import type { Trace } from "../core/trace/trace.ts";

/**
 * The same requests with all lengths divided by `by`, rounded up; a content of 512 tokens then has 512 / `by` tokens.
 * Arrivals, contents and shared prefixes are unchanged, so that an engine can serve a long trace in less time.
 *
 * @throws InputError if contents cannot be divided by `by`
 */
export function shortened(trace: Trace, by: number): Trace {
  const { unitTokens, optional } = trace;
  if (by === 1) return trace;
  if (unitTokens === 1)
    throw new InputError(`lengths cannot be divided by ${by}: the trace has token ids, expected content ids`);
  // A content of one token would be a token id, which does not depend on its prefix.
  if (unitTokens % by !== 0 || by === unitTokens)
    throw new InputError(
      `lengths cannot be divided by ${by}: expected a divisor of the unit of ${unitTokens} tokens that leaves at least 2 tokens`,
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
