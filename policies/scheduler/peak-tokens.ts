/** Tokens of a request now, and tokens that it may still generate. */
export interface TokenDemand {
  readonly currentTokens: number;
  readonly remainingTokens: number;
}

/**
 * Peak of the tokens of these requests if each generates its maximum, one token per step. When the request with the i-th
 * most remaining tokens finishes, i requests have each generated that number on top of their current tokens; the others have
 * finished before:
 *
 *   peak = max over i of  remaining_i · i + (current_1 + … + current_i)      sorted by remaining, descending
 *
 * With `shared`, tokens that the i-th request shares with an earlier one are counted once.
 *
 * Source: LightLLM's Efficient Router, `_can_add_new_req` in server/router/req_queue/chunked_prefill/impl.py. It counts
 * a shared prefix once for every request that shares it.
 */
export function peakTokens<D extends TokenDemand>(requests: readonly D[], shared?: (a: D, b: D) => number): number {
  const longestFirst = [...requests].sort((a, b) => b.remainingTokens - a.remainingTokens);
  let peak = 0;
  let tokens = 0;
  for (const [i, each] of longestFirst.entries()) {
    tokens += each.currentTokens;
    if (shared) {
      let maxShared = 0;
      for (let before = 0; before < i; before++) maxShared = Math.max(maxShared, shared(each, longestFirst[before]));
      tokens -= maxShared;
    }
    peak = Math.max(peak, each.remainingTokens * (i + 1) + tokens);
  }
  return peak;
}
