/** What a request holds now and how much it may still write, in tokens. */
export interface TokenDemand {
  readonly runTokens: number;
  readonly leftTokens: number;
}

/**
 * The most tokens that these requests hold at once if all of them write all they may, one token a step each. When the
 * i-th longest to run ends, i requests have each written as much as it had left, on top of what they hold now; those
 * that ended before are gone:
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
