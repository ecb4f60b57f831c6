import { InputError } from "../../core/errors.ts";
import type { DecoderConfig } from "../model/decoder.ts";
import { parameterCount } from "../model/tensors.ts";

/**
 * How a step is divided into calls of the model. Attention pads each sequence of a call to the call's longest query and longest
 * context, so that decodes in one call with a prompt would be padded to the prompt's length; but every call reads all weights.
 * Costs are in one arbitrary unit.
 */
export interface CallRules {
  /**
   * Maximum query tokens of a sequence in one call. Longer queries are divided into chunks; the context of a chunk includes
   * the chunks before it.
   */
  readonly longestQuery: number;
  /** Cost of a call. */
  readonly perCall: number;
  /** Cost of a context token of a sequence of a call, padding included. */
  readonly perContextToken: number;
  /** Cost of a pair of a query token and a context token of a sequence of a call, padding included. */
  readonly perScore: number;
}

/**
 * Maximum query tokens of a sequence in one call. A call's attention materializes the scores of all its queries with their
 * whole context. The scores of 256 queries stay in the processor's caches, and no chunk computes scores for later tokens of
 * its prompt.
 */
const longestQuery = 256;

/**
 * The rules for a model. The unit of cost is one row of the matrix products with all weights. Reading the weights takes as long
 * as computing about ten rows; context is read, written and read again, weights are read once.
 */
export function callRules(config: DecoderConfig): CallRules {
  const { layers, heads, kvHeads, headDim } = config;
  const weights = parameterCount(config) - config.vocabulary * config.hidden;
  const perCall = 10;
  return {
    longestQuery,
    perCall,
    perContextToken: (perCall * 3 * 2 * layers * kvHeads * headDim) / weights,
    perScore: (2 * layers * heads * headDim) / weights,
  };
}

/** Validates the rules of a report or a cost file. @throws InputError that begins with `where` */
export function checkedRules(calls: unknown, where: string): CallRules {
  const rules = (typeof calls === "object" && calls !== null ? calls : {}) as Readonly<Record<string, unknown>>;
  const longest = rules["longestQuery"];
  if (!(typeof longest === "number" && Number.isSafeInteger(longest) && longest >= 1))
    throw new InputError(`${where}: calls.longestQuery is ${JSON.stringify(longest)}, expected a whole number from 1`);
  for (const name of ["perCall", "perContextToken", "perScore"]) {
    const cost = rules[name];
    if (typeof cost === "number" && cost >= 0 && Number.isFinite(cost)) continue;
    throw new InputError(`${where}: calls.${name} is ${JSON.stringify(cost)}, expected a number from 0`);
  }
  return rules as unknown as CallRules;
}

/** A single query row is padded to two, because the runtime sums one row in another order than several rows. */
const minQueries = 2;

/**
 * Divides sequences, sorted by query and context length, into calls with the least total cost.
 *
 * @param queries query tokens of each sequence, by its number
 * @param contexts context tokens of each sequence, its queries included, by its number
 * @param sequences numbers of the sequences to divide
 * @returns the sequences of each call, shortest queries first
 */
export function cheapestCalls(
  { perCall, perContextToken, perScore }: Omit<CallRules, "longestQuery">,
  queries: ArrayLike<number>,
  contexts: ArrayLike<number>,
  sequences: readonly number[],
): number[][] {
  const sorted = [...sequences].sort((a, b) => queries[a] - queries[b] || contexts[a] - contexts[b]);
  /** By i: least cost of the first i sequences, and index of the first sequence of their last call. */
  const least = [0];
  const begin = [0];
  for (let end = 1; end <= sorted.length; end++) {
    least[end] = Number.POSITIVE_INFINITY;
    const longest = Math.max(minQueries, queries[sorted[end - 1]]);
    let context = 0;
    for (let from = end - 1; from >= 0; from--) {
      context = Math.max(context, contexts[sorted[from]]);
      const cost = least[from] + perCall + (end - from) * context * (perContextToken + perScore * longest);
      if (cost >= least[end]) continue;
      least[end] = cost;
      begin[end] = from;
    }
  }
  const calls: number[][] = [];
  for (let end = sorted.length; end > 0; end = begin[end]) calls.unshift(sorted.slice(begin[end], end));
  return calls;
}
