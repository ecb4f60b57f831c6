import type { BatchStep } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { type CallRules, callRules, cheapestCalls } from "./call-rules.ts";

/**
 * Splits long prompts of a step into several sequences, each of which reads the KV of the earlier ones from the pool. The order
 * of rows does not change.
 *
 * @param longest maximum query tokens of a sequence
 */
export function splitPrompts(step: BatchStep, longest: number): BatchStep {
  const { cuSeqlensQ, contextLens, blockTables, maxBlocksPerSequence, slotMapping } = step;
  const owners: number[] = [];
  const ends: number[] = [0];
  const contexts: number[] = [];
  for (let sequence = 0; sequence < contextLens.length; sequence++) {
    const [from, to] = [cuSeqlensQ[sequence], cuSeqlensQ[sequence + 1]];
    // Keys and values that are not stored cannot be read by a later sequence.
    const length = slotMapping.subarray(from, to).includes(-1) ? to - from : longest;
    for (let end = Math.min(to, from + length); ; end = Math.min(to, end + length)) {
      owners.push(sequence);
      ends.push(end);
      contexts.push(contextLens[sequence] - (to - end));
      if (end === to) break;
    }
  }
  if (owners.length === contextLens.length) return step;
  const tables = new Int32Array(owners.length * maxBlocksPerSequence);
  owners.forEach((sequence, i) => {
    const first = sequence * maxBlocksPerSequence;
    tables.set(blockTables.subarray(first, first + maxBlocksPerSequence), i * maxBlocksPerSequence);
  });
  return { ...step, cuSeqlensQ: Int32Array.from(ends), contextLens: Int32Array.from(contexts), blockTables: tables };
}

/** The runtime sums over a context in groups of this many tokens, which depends on the width of heads. */
function groupTokens(headDim: number): number {
  if (headDim > 64) return 128;
  if (headDim > 32) return 256;
  return headDim > 16 ? 512 : 1024;
}

/**
 * First position of the gathered context of queries from position `begin` on. With an attention window it may be above 0. It is
 * a multiple of the group and of the block size, so that sums are bit-identical: the groups before it would add 0.
 */
export function firstGathered(
  { window, headDim }: Pick<DecoderConfig, "window" | "headDim">,
  blockTokens: number,
  begin: number,
): number {
  if (window === undefined) return 0;
  let step = blockTokens;
  while (step % groupTokens(headDim) !== 0) step += blockTokens;
  return Math.floor(Math.max(0, begin - window + 1) / step) * step;
}

/** Divides steps into calls of the model, by the call rules of this backend. */
export class CallPlanner {
  readonly #config: DecoderConfig;
  readonly #blockTokens: number;
  readonly #rules: CallRules;
  /** By block: the wave of calls in which a sequence of this step writes it; −1: in none. */
  readonly #writtenIn: Int32Array;

  constructor(config: DecoderConfig, blockCount: number, blockTokens: number) {
    this.#config = config;
    this.#blockTokens = blockTokens;
    this.#rules = callRules(config);
    this.#writtenIn = new Int32Array(blockCount).fill(-1);
  }

  /** The sequences of each call, in the order of execution. */
  plan(step: BatchStep): number[][] {
    const waves = this.#waves(step);
    return waves.flatMap((sequences) => this.#cheapest(step, sequences));
  }

  /**
   * Divides the sequences into waves. A sequence may read blocks that another sequence writes in the same step; the pool has
   * them only after the other's call, so that it must be in a later wave. In a batch the writing sequence precedes the reading
   * one.
   */
  #waves({ contextLens, blockTables, maxBlocksPerSequence, slotMapping, cuSeqlensQ }: BatchStep): number[][] {
    const writtenIn = this.#writtenIn;
    const waves: number[][] = [];
    const slots = (sequence: number) => slotMapping.subarray(cuSeqlensQ[sequence], cuSeqlensQ[sequence + 1]);
    for (let sequence = 0; sequence < contextLens.length; sequence++) {
      const first = sequence * maxBlocksPerSequence;
      const end = first + Math.ceil(contextLens[sequence] / this.#blockTokens);
      let wave = 0;
      for (let i = first; i < end; i++) wave = Math.max(wave, writtenIn[blockTables[i]] + 1);
      (waves[wave] ??= []).push(sequence);
      for (const slot of slots(sequence)) if (slot >= 0) writtenIn[Math.floor(slot / this.#blockTokens)] = wave;
    }
    for (const slot of slotMapping) if (slot >= 0) writtenIn[Math.floor(slot / this.#blockTokens)] = -1;
    return waves;
  }

  #cheapest({ cuSeqlensQ, contextLens }: BatchStep, sequences: readonly number[]): number[][] {
    const queries = contextLens.map((_, sequence) => cuSeqlensQ[sequence + 1] - cuSeqlensQ[sequence]);
    const contexts = contextLens.map(
      (length, sequence) => length - firstGathered(this.#config, this.#blockTokens, length - queries[sequence]),
    );
    return cheapestCalls(this.#rules, queries, contexts, sequences);
  }
}
