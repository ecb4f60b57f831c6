import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/**
 * Segmented LRU: what has fewer than `threshold` hits goes before what has them, each segment least recently used
 * first. Unlike the SLRU of Karedla et al. (1994), neither segment has a size, and nothing falls back into the first.
 */
export const slruWith = (threshold: number): EvictionPlugin => ({
  name: "slru",
  about: `fewer than ${threshold} hits go before the others, each least recently used first`,
  source: "SGLang (slru)",
  create: byScore((entry, { accessCount }) => (accessCount[entry] >= threshold ? 1 : 0), "lastAccess"),
});

export const slru: EvictionPlugin = slruWith(2);
