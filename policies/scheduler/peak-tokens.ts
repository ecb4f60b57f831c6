/** Tokens that a request has now, and that it may still generate. */
export interface TokenDemand {
  readonly runTokens: number;
  readonly leftTokens: number;
}

/**
 * Peak of the tokens of these requests if each generates its maximum, one token per step. When the request with the i-th
 * most remaining tokens finishes, i requests have each generated as many as it had left, on top of their present tokens;
 * the others have finished before:
 *
 *   peak = max over i of  left_i · i + (run_1 + … + run_i)      sorted by what is left, the most first
 *
 * With `shared`, tokens that the i-th has in common with one of those before it are counted once.
 *
 * Source: LightLLM's Efficient Router, `_can_add_new_req` in server/router/req_queue/chunked_prefill/impl.py. It counts
 * a shared prefix once for every request that shares it.
 */
export function peakTokens<D extends TokenDemand>(
  requests: readonly D[],
  shared?: (of: D, with_: D) => number,
): number {
  const longestFirst = [...requests].sort((a, b) => b.leftTokens - a.leftTokens);
  let peak = 0;
  let held = 0;
  for (const [i, each] of longestFirst.entries()) {
    held += each.runTokens;
    if (shared) {
      let most = 0;
      for (let before = 0; before < i; before++) most = Math.max(most, shared(each, longestFirst[before]));
      held -= most;
    }
    peak = Math.max(peak, each.leftTokens * (i + 1) + held);
  }
  return peak;
}
