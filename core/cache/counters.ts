import { missReasons } from "../log/miss-reasons.ts";

/**
 * What a cache did, over the first admission of every request. Kept by the cache alone, so that a figure means the same
 * for every policy. Tokens of refused requests are in `lookupTokens` and in `refusedTokens`, but in no miss reason:
 * lookupTokens = hitTokens + sum of missTokens + refusedTokens.
 */
export class Counters {
  lookups = 0;
  lookupBlocks = 0;
  lookupTokens = 0;
  hitBlocks = 0;
  hitTokens = 0;
  /** Prompt blocks without the partial last ones, and hits among them. */
  fullLookupBlocks = 0;
  fullHitBlocks = 0;
  /** Prompt blocks that were resident at admission, also past a hole. */
  residentBlocks = 0;
  /** Sums of per-request hit ratios. */
  blockRatioSum = 0;
  tokenRatioSum = 0;
  insertedBlocks = 0;
  evictedBlocks = 0;
  copiedBlocks = 0;
  refusedRequests = 0;
  refusedTokens = 0;
  preemptions = 0;
  /** Hit tokens of requests that came back after a preemption; in no other figure. */
  rehitTokens = 0;
  readonly missTokens = new Float64Array(missReasons.length);

  /** Forgets the past: the end of the warm-up. */
  reset(): void {
    const fresh = new Counters();
    const { missTokens, ...numbers } = fresh;
    Object.assign(this, numbers);
    this.missTokens.set(missTokens);
  }
}
