import type { BatchStep, Executor } from "./executor.ts";

/** The model of self-checks. */
export const selfCheckModel = "random:tiny";

/** First logits of the model after `prompt`, computed independently with 64-bit floats. */
const prompt = new TextEncoder().encode("kvlab");
const expected = [0.951124606, -1.498246144, 0.468917017, 0.186031897, 4.738621556, -1.917292348];
const largestLogit = 7.767306503;

/** Blocks and tokens per block that the executor of a self-check needs. */
export const selfCheckPool = { blockCount: 4, blockTokens: 4 } as const;

/** Largest errors, relative to the largest logit. */
export interface SelfCheckLimits {
  /** Of the known logits. */
  readonly known: number;
  /** Of the logits after a cached prefix: 0 if they are bit-identical. */
  readonly cached: number;
}

/**
 * Compares the logits of an executor of `random:tiny` with known ones, and with those after a cached prefix. Any other model fails.
 *
 * @returns the failure; undefined if the check passes
 */
export async function checkExecutor(executor: Executor, limits: SelfCheckLimits): Promise<string | undefined> {
  const { logits } = await executor.executeStep(stepOf(0, prompt.length));
  const error = largestDifference(logits, expected);
  if (!(error < limits.known))
    return `logits are off by ${error.toExponential(1)} of the largest, expected less than ${limits.known}`;
  const again = await executor.executeStep(stepOf(selfCheckPool.blockTokens, prompt.length));
  return largestDifference(again.logits, logits) <= limits.cached ? undefined : "a cached prefix changes the logits";
}

const largestDifference = (logits: ArrayLike<number>, others: ArrayLike<number>) =>
  Array.from(others).reduce((most, other, token) => Math.max(most, Math.abs(logits[token] - other)), 0) / largestLogit;

/**
 * Prefills prompt tokens `[from, to)` into blocks 0, 1, … and returns the logits of the last one; earlier tokens are cached.
 */
function stepOf(from: number, to: number): BatchStep {
  const places = Int32Array.from({ length: to - from }, (_, i) => from + i);
  const blocks = Math.ceil(to / selfCheckPool.blockTokens);
  return {
    inputIds: Int32Array.from(prompt.subarray(from, to)),
    positions: places,
    slotMapping: places,
    cuSeqlensQ: Int32Array.of(0, places.length),
    contextLens: Int32Array.of(to),
    blockTables: Int32Array.from({ length: blocks }, (_, i) => i),
    maxBlocksPerSequence: blocks,
    logitsIndices: Int32Array.of(places.length - 1),
  };
}
