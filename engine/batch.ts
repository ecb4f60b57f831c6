import type { Sequence } from "../core/cache/request.ts";
import { assert } from "../core/errors.ts";
import type { StepItem, StepPlan } from "../core/replica/step.ts";
import type { BatchStep } from "./executor.ts";

/** Writes token ids `[from, to)` of a sequence (prompt, then output tokens) to `into`, starting at index `at`. */
export type WriteTokens = (sequence: Sequence, from: number, to: number, into: Int32Array, at: number) => void;

/**
 * The executor's input for a plan. Sequences with stored logits compute nothing and are left out. `items`: the sequences of the
 * batch; `sampled`: those of them for which the executor returns logits, in the order of the logits.
 */
export interface PlannedBatch {
  readonly step: BatchStep;
  readonly items: readonly StepItem[];
  readonly sampled: readonly StepItem[];
}

/** @throws InvariantError if a token has no block */
export function batchOf(plan: StepPlan, blockTokens: number, writeTokens: WriteTokens): PlannedBatch {
  const items = plan.items.slice(0, plan.count).filter(({ tokens }) => tokens > 0);
  const sampled = items.filter(({ generate }) => generate > 0);
  let tokenCount = 0;
  let maxBlocksPerSequence = 1;
  for (const { from, tokens } of items) {
    tokenCount += tokens;
    maxBlocksPerSequence = Math.max(maxBlocksPerSequence, Math.ceil((from + tokens) / blockTokens));
  }
  const step = {
    inputIds: new Int32Array(tokenCount),
    positions: new Int32Array(tokenCount),
    slotMapping: new Int32Array(tokenCount),
    cuSeqlensQ: new Int32Array(items.length + 1),
    contextLens: new Int32Array(items.length),
    blockTables: new Int32Array(items.length * maxBlocksPerSequence),
    maxBlocksPerSequence,
    logitsIndices: new Int32Array(sampled.length),
  };
  let row = 0;
  let logits = 0;
  items.forEach(({ sequence, from, tokens, generate }, i) => {
    const { table, blockCount } = sequence;
    const end = from + tokens;
    const blocks = Math.ceil(end / blockTokens);
    assert(blocks <= blockCount, `tokens up to ${end} in ${blockCount} blocks of ${blockTokens}`);
    step.cuSeqlensQ[i] = row;
    step.contextLens[i] = end;
    step.blockTables.set(table.subarray(0, blocks), i * maxBlocksPerSequence);
    writeTokens(sequence, from, end, step.inputIds, row);
    for (let position = from; position < end; position++, row++) {
      step.positions[row] = position;
      step.slotMapping[row] = table[Math.floor(position / blockTokens)] * blockTokens + (position % blockTokens);
    }
    if (generate > 0) step.logitsIndices[logits++] = row - 1;
  });
  step.cuSeqlensQ[items.length] = row;
  return { step, items, sampled };
}
