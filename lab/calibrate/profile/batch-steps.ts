import type { BatchStep } from "../../../engine/executor.ts";

/** Tokens per block of measured steps, as in vLLM. */
export const blockTokens = 16;

/** Rows [from, to) of one sequence; earlier tokens are cached. Its blocks are consecutive, `block` is the first. */
export interface Rows {
  /** Token id by position. */
  readonly tokens: Int32Array;
  readonly from: number;
  readonly to: number;
  readonly block: number;
}

/** A step of some sequences, which returns the logits of the last row of each. */
export function stepOf(sequences: readonly Rows[]): BatchStep {
  const rows = sequences.reduce((sum, { from, to }) => sum + to - from, 0);
  const maxBlocksPerSequence = Math.max(...sequences.map(({ to }) => blocksFor(to)));
  const [inputIds, positions, slotMapping] = [new Int32Array(rows), new Int32Array(rows), new Int32Array(rows)];
  const cuSeqlensQ = new Int32Array(sequences.length + 1);
  const blockTables = new Int32Array(sequences.length * maxBlocksPerSequence);
  sequences.forEach(({ tokens, from, to, block }, i) => {
    const start = cuSeqlensQ[i];
    inputIds.set(tokens.subarray(from, to), start);
    for (let at = from; at < to; at++) {
      positions[start + at - from] = at;
      slotMapping[start + at - from] = block * blockTokens + at;
    }
    cuSeqlensQ[i + 1] = start + to - from;
    for (let b = 0; b < blocksFor(to); b++) blockTables[i * maxBlocksPerSequence + b] = block + b;
  });
  return {
    ...{ inputIds, positions, slotMapping, cuSeqlensQ, blockTables, maxBlocksPerSequence },
    contextLens: Int32Array.from(sequences, ({ to }) => to),
    logitsIndices: Int32Array.from(sequences, (_, i) => cuSeqlensQ[i + 1] - 1),
  };
}

/** The same step, whose tokens the device chooses: those with the largest logits. */
export const greedyStep = (step: BatchStep): BatchStep => ({
  ...step,
  sampling: Array.from(step.logitsIndices, (_, position) => ({
    ...{ temperature: 0, topK: 0, topP: 1, minP: 0, seed: 1, position },
  })),
});

export const blocksFor = (tokens: number): number => Math.ceil(tokens / blockTokens);

/** Token ids that are a function of the position, without a period below the vocabulary. */
export const promptOf = (length: number, vocabulary: number, seed = 0): Int32Array =>
  Int32Array.from({ length }, (_, i) => (7919 * (i + 1) + 104_729 * seed + i * i) % vocabulary);
