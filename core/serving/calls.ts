import type { StepPlan } from "../replica/step.ts";
import type { StepLoad } from "./step-load.ts";

/**
 * How an engine that pads divides a step into calls of its model. Attention pads every sequence of a call to the call's longest
 * query and longest context, so that a prompt would make rows of prompt length of all answers beside it; but each call reads all
 * weights again. Costs are in any unit, the same for all of them.
 */
export interface CallRules {
  /** Longer queries are cut into pieces of so many tokens, of which each one's context is those before it. */
  readonly longestQuery: number;
  readonly perCall: number;
  /** Of each sequence of a call. */
  readonly perContextToken: number;
  /** Of each query of each sequence with each token of its context. */
  readonly perScore: number;
}

/** What a load has only where it is known how steps are divided. */
export const callLoads = [
  "calls",
  "paddedContextTokens",
  "farContextTokens",
  "paddedPairs",
] as const satisfies (keyof StepLoad)[];

/**
 * What a call gathers beyond so many tokens costs more for each: it no longer comes from caches that are near. Where that begins
 * is no sharp edge, and files of coefficients count on it (docs/decisions.md).
 */
export const nearContextTokens = 1024;

/**
 * Sequences sorted by query and context, cut where the sum of the calls' costs is least.
 *
 * @param queries tokens that each sequence computes, by its number
 * @param contexts tokens that it looks at, its own included, by its number
 * @param sequences numbers of those to be divided
 * @returns the sequences of each call, shortest queries first
 */
export function cheapestCalls(
  { perCall, perContextToken, perScore }: Omit<CallRules, "longestQuery">,
  queries: ArrayLike<number>,
  contexts: ArrayLike<number>,
  sequences: readonly number[],
): number[][] {
  const sorted = [...sequences].sort((a, b) => queries[a] - queries[b] || contexts[a] - contexts[b]);
  /** Least cost of the first i sequences, and where their last call begins. */
  const least = [0];
  const begin = [0];
  for (let end = 1; end <= sorted.length; end++) {
    least[end] = Number.POSITIVE_INFINITY;
    const longest = Math.max(leastQueries, queries[sorted[end - 1]]);
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

/** A single row is padded to two, which the runtime sums in the same order as many. */
const leastQueries = 2;

/**
 * Fills in what a load has of calls. Pieces of one prompt are in successive calls; whoever else must wait for what is
 * computed in the same step is not waited for.
 */
export function measureCalls(load: StepLoad, { items, count }: StepPlan, rules: CallRules): void {
  const { longestQuery } = rules;
  const queries: number[] = [];
  const contexts: number[] = [];
  const waves: number[][] = [];
  for (let i = 0; i < count; i++) {
    const { from, tokens } = items[i];
    for (let wave = 0, done = 0; done < tokens; wave++) {
      const query = Math.min(longestQuery, tokens - done);
      done += query;
      (waves[wave] ??= []).push(queries.length);
      queries.push(query);
      contexts.push(from + done);
    }
  }
  load.calls = load.paddedContextTokens = load.farContextTokens = load.paddedPairs = 0;
  for (const wave of waves)
    for (const call of cheapestCalls(rules, queries, contexts, wave)) {
      const most = (of: readonly number[]) => call.reduce((largest, sequence) => Math.max(largest, of[sequence]), 0);
      const padded = call.length * most(contexts);
      load.calls++;
      load.paddedContextTokens += padded;
      load.farContextTokens += Math.max(0, padded - nearContextTokens);
      load.paddedPairs += padded * most(queries);
    }
}
