import type { BatchStep } from "../executor.ts";
import { loadModel } from "../model/load.ts";
import { openCpuExecutor } from "./executor.ts";

/** What a run of `random:tiny` over `prompt` gives by 64-bit floats: its first logits. */
const prompt = new TextEncoder().encode("kvlab");
const expected = [0.951124606, -1.498246144, 0.468917017, 0.186031897, 4.738621556, -1.917292348];
const largest = 7.767306503;
const tolerance = 1e-4;

const blockTokens = 4;

/**
 * Runs the smallest model for real: writes it, loads it in its thread, and compares its logits with those it must have, and with
 * those behind a cached prefix. Another model has others, and is found at fault.
 *
 * @returns what is wrong; undefined if nothing is
 * @throws InputError or ExecutorError if it does not run at all
 */
export async function selfCheck(name = "random:tiny"): Promise<string | undefined> {
  const model = loadModel(name);
  const executor = await openCpuExecutor({ model, blockCount: 4, blockTokens, threads: 1 });
  try {
    const { logits } = await executor.executeStep(stepOf(0, prompt.length));
    const error = Math.max(...expected.map((value, token) => Math.abs(logits[token] - value))) / largest;
    if (!(error < tolerance))
      return `logits are off by ${error.toExponential(1)} of the largest, expected less than ${tolerance}`;
    const again = await executor.executeStep(stepOf(blockTokens, prompt.length));
    return again.logits.every((value, i) => value === logits[i]) ? undefined : "a cached prefix changes the logits";
  } finally {
    await executor.close();
  }
}

/** Tokens `[from, to)` of the prompt behind those that are there, in blocks 0, 1, …; the last one's logits. */
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
