import { type MissReason, missReasons } from "../log/miss-reasons.ts";
import type { Fragmentation } from "../plugins/index.ts";
import type { Counters } from "./counters.ts";

/** `part / whole`; 0 if `whole` is 0. */
const ratio = (part: number, whole: number) => (whole === 0 ? 0 : part / whole);

/**
 * The `cache` part of the JSON report (schema run/1), from the counters. `fragmentation` is null if the allocator does not
 * count it; unlike the other fields it includes the warm-up.
 */
export function cacheReport(counters: Counters, fragmentation?: Fragmentation) {
  const missTokens = {} as Record<MissReason, number>;
  missReasons.forEach((reason, i) => {
    missTokens[reason] = counters.missTokens[i];
  });
  return {
    lookups: counters.lookups,
    lookupBlocks: counters.lookupBlocks,
    hitBlocks: counters.hitBlocks,
    lookupTokens: counters.lookupTokens,
    hitTokens: counters.hitTokens,
    hitRatio: {
      block: ratio(counters.hitBlocks, counters.lookupBlocks),
      token: ratio(counters.hitTokens, counters.lookupTokens),
      requestMeanBlock: ratio(counters.blockRatioSum, counters.lookups),
      requestMeanToken: ratio(counters.tokenRatioSum, counters.lookups),
      fullBlock: ratio(counters.fullHitBlocks, counters.fullLookupBlocks),
      anyResidentBlock: ratio(counters.residentBlocks, counters.lookupBlocks),
    },
    insertedBlocks: counters.insertedBlocks,
    evictedBlocks: counters.evictedBlocks,
    ...(counters.expiredBlocks > 0 && { expiredBlocks: counters.expiredBlocks }),
    ...(counters.refusedBlocks > 0 && { refusedBlocks: counters.refusedBlocks }),
    copiedBlocks: counters.copiedBlocks,
    missTokens,
    refusedRequests: counters.refusedRequests,
    refusedTokens: counters.refusedTokens,
    preemptions: counters.preemptions,
    rehitTokens: counters.rehitTokens,
    fragmentation: fragmentation ?? null,
  };
}
