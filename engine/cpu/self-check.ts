import type { BatchStep } from "../executor.ts";
import { loadModel } from "../model/load.ts";
import { openCpuExecutor } from "./executor.ts";

/** First logits of `random:tiny` after `prompt`, computed independently with 64-bit floats. */
const prompt = new TextEncoder().encode("kvlab");
const expected = [0.951124606, -1.498246144, 0.468917017, 0.186031897, 4.738621556, -1.917292348];
const largestLogit = 7.767306503;
const tolerance = 1e-4;

const blockTokens = 4;

/**
 * Runs the smallest model with the whole stack (model files, worker thread, runtime), and compares its logits with known ones
 * and with those after a cached prefix. Any other model fails.
 *
 * @returns the failure; undefined if the check passes
 * @throws InputError or ExecutorError if the model does not run
 */
export async function selfCheck(name = "random:tiny"): Promise<string | undefined> {
  const model = loadModel(name);
  const executor = await openCpuExecutor({ model, blockCount: 4, blockTokens, threads: 1 });
  try {
    const { logits } = await executor.executeStep(stepOf(0, prompt.length));
    const error = Math.max(...expected.map((value, token) => Math.abs(logits[token] - value))) / largestLogit;
    if (!(error < tolerance))
      return `logits are off by ${error.toExponential(1)} of the largest, expected less than ${tolerance}`;
    const again = await executor.executeStep(stepOf(blockTokens, prompt.length));
    return again.logits.every((value, i) => value === logits[i]) ? undefined : "a cached prefix changes the logits";
  } finally {
    await executor.close();
  }
}

/**
 * Prefills prompt tokens `[from, to)` into blocks 0, 1, … and returns the logits of the last one; earlier tokens are cached.
 */
function stepOf(from: number, to: number): BatchStep {
  const places = Int32Array.from({ length: to - from }, (_, i) => from + i);
  const blocks = Math.ceil(to / blockTokens);
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
