import { missReasons } from "../log/miss-reasons.ts";

/**
 * Counters of a cache, over the first admission of every request. Only the cache updates them, so that a metric means the
 * same for every policy. Tokens of refused requests are in `lookupTokens` and `refusedTokens`, but have no miss reason:
 * lookupTokens = hitTokens + sum of missTokens + refusedTokens.
 */
export class Counters {
  lookups = 0;
  lookupBlocks = 0;
  lookupTokens = 0;
  hitBlocks = 0;
  hitTokens = 0;
  /** Full prompt blocks, and hits among them. */
  fullLookupBlocks = 0;
  fullHitBlocks = 0;
  /** Prompt blocks that were cached at admission, past a hole or not. */
  residentBlocks = 0;
  /** Sums of per-request hit ratios. */
  blockRatioSum = 0;
  tokenRatioSum = 0;
  insertedBlocks = 0;
  evictedBlocks = 0;
  /** Blocks of expired entries; not in `evictedBlocks`. */
  expiredBlocks = 0;
  /** Blocks of finished requests that were computed and not stored, because the eviction policy refused them. */
  refusedBlocks = 0;
  copiedBlocks = 0;
  refusedRequests = 0;
  refusedTokens = 0;
  preemptions = 0;
  /** Hit tokens at admissions after a preemption; in no other counter. */
  rehitTokens = 0;
  readonly missTokens = new Float64Array(missReasons.length);

  /** Sets all counters to 0, at the end of the warm-up. */
  reset(): void {
    const fresh = new Counters();
    const { missTokens, ...numbers } = fresh;
    Object.assign(this, numbers);
    this.missTokens.set(missTokens);
  }
}
