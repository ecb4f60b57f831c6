import type { Executor } from "../../engine/executor.ts";
import { argmax } from "../../engine/sampling.ts";
import { type Rows, stepOf } from "../../lab/calibrate/profile/batch-steps.ts";

/**
 * Generates `count` tokens greedily after rows [0, to) of the sequence.
 *
 * @param chunks ends of the steps of its prefill; `[to]`: one step
 * @returns the logits of each generated token
 */
export async function generated(
  executor: Executor,
  sequence: Omit<Rows, "from">,
  count: number,
  chunks: readonly number[] = [sequence.to],
): Promise<Float32Array[]> {
  const { to } = sequence;
  const tokens = new Int32Array(to + count);
  tokens.set(sequence.tokens.subarray(0, to));
  const all: Float32Array[] = [];
  let from = 0;
  for (const end of [...chunks, ...Array.from({ length: count - 1 }, (_, i) => to + i + 1)]) {
    const { logits } = await executor.executeStep(stepOf([{ ...sequence, tokens, from, to: end }]));
    from = end;
    if (end < to) continue;
    all.push(logits.slice());
    tokens[end] = argmax(logits);
  }
  return all;
}
