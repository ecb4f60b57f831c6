import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/**
 * Segmented LRU: evicts entries with fewer than `threshold` hits before the others, each segment in LRU order (SGLang's
 * `slru` strategy). Unlike in Karedla et al. (1994), segments have no size limit and no entry is demoted.
 */
export const slruWith = (threshold: number): EvictionPlugin => ({
  name: "slru",
  about: `evicts entries with fewer than ${threshold} hits first, each segment least recently used first`,
  source: "SGLang (slru)",
  ...byScore((entry, { accessCount }) => (accessCount[entry] >= threshold ? 1 : 0), "lastAccess"),
});

export const slru: EvictionPlugin = slruWith(2);
