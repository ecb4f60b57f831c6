import type { BatchStep } from "../executor.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { parameterCount } from "../model/tensors.ts";

/**
 * Queries of a sequence in one call. Attention makes scores of all of a call's queries with all of its context before it looks
 * at any: those of so many stay in the caches, and what is later in a long prompt is no context of what is earlier.
 */
export const longestQuery = 256;

/**
 * The same step with long prompts in pieces, each of which finds those before it in the pool. Rows stay where they are.
 *
 * @param longest queries of a piece at most
 */
export function inPieces(step: BatchStep, longest = longestQuery): BatchStep {
  const { cuSeqlensQ, contextLens, blockTables, maxBlocksPerSequence, slotMapping } = step;
  const owners: number[] = [];
  const ends: number[] = [0];
  const contexts: number[] = [];
  for (let sequence = 0; sequence < contextLens.length; sequence++) {
    const [from, to] = [cuSeqlensQ[sequence], cuSeqlensQ[sequence + 1]];
    // What is stored nowhere is not found there.
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

/** The runtime sums over a context in groups of so many tokens, more of them for narrower heads. */
function groupTokens(headDim: number): number {
  if (headDim > 64) return 128;
  if (headDim > 32) return 256;
  return headDim > 16 ? 512 : 1024;
}

/**
 * Where the gathered context of queries from position `begin` on begins. With a window it need not begin at position 0; where
 * it begins with a group, and with a block, sums are the same to the last bit: groups before it would add 0.
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

/**
 * A step is run in several calls of the graph where that is cheaper: attention pads every sequence of a call to its longest
 * query and its longest context, so that a prompt would make rows of prompt length of all answers beside it; but each call
 * reads all weights again.
 */
export class CallPlanner {
  readonly #config: DecoderConfig;
  readonly #blockTokens: number;
  readonly #costs: CallCosts;
  /** The wave in which each block is written, by the sequences of this step. */
  readonly #writtenIn: Int32Array;

  constructor(config: DecoderConfig, blockCount: number, blockTokens: number) {
    this.#config = config;
    this.#blockTokens = blockTokens;
    this.#costs = callCosts(config);
    this.#writtenIn = new Int32Array(blockCount).fill(-1);
  }

  /** The sequences of each call, in the order in which the calls are to run. */
  plan(step: BatchStep): number[][] {
    const waves = this.#waves(step);
    return waves.flatMap((sequences) => this.#cheapest(step, sequences));
  }

  /**
   * A sequence may have found blocks that another one writes in this very step. The pool has them only after that one's
   * call, so that it waits for the next wave. Whoever is found comes first in the batch.
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

  /** Sequences sorted by query and context, cut where the sum of the calls' costs is least. */
  #cheapest({ cuSeqlensQ, contextLens }: BatchStep, sequences: readonly number[]): number[][] {
    const queryOf = (sequence: number) => cuSeqlensQ[sequence + 1] - cuSeqlensQ[sequence];
    const contexts = contextLens.map(
      (length, sequence) => length - firstGathered(this.#config, this.#blockTokens, length - queryOf(sequence)),
    );
    const sorted = [...sequences].sort((a, b) => queryOf(a) - queryOf(b) || contexts[a] - contexts[b]);
    const { perCall, perContextToken, perScore } = this.#costs;
    /** Least cost of the first i sequences, and where their last call begins. */
    const least = [0];
    const begin = [0];
    for (let end = 1; end <= sorted.length; end++) {
      least[end] = Number.POSITIVE_INFINITY;
      const queries = Math.max(2, queryOf(sorted[end - 1]));
      let context = 0;
      for (let from = end - 1; from >= 0; from--) {
        context = Math.max(context, contexts[sorted[from]]);
        const cost = least[from] + perCall + (end - from) * context * (perContextToken + perScore * queries);
        if (cost >= least[end]) continue;
        least[end] = cost;
        begin[end] = from;
      }
    }
    const calls: number[][] = [];
    for (let end = sorted.length; end > 0; end = begin[end]) calls.unshift(sorted.slice(begin[end], end));
    return calls;
  }
}

interface CallCosts {
  readonly perCall: number;
  /** Of each sequence. */
  readonly perContextToken: number;
  /** Of each query of each sequence with each token of its context. */
  readonly perScore: number;
}

/**
 * In rows of matrix products with all weights. To read the weights takes as long as to compute about ten rows; a context is
 * read, written and read again where weights are read once.
 */
function callCosts(config: DecoderConfig): CallCosts {
  const { layers, heads, kvHeads, headDim } = config;
  const weights = parameterCount(config) - config.vocabulary * config.hidden;
  const perCall = 10;
  return {
    perCall,
    perContextToken: (perCall * 3 * 2 * layers * kvHeads * headDim) / weights,
    perScore: (2 * layers * heads * headDim) / weights,
  };
}
