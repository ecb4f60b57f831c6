import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the entry with the fewest hits, of equals the least recently used. After a split both halves keep the count. */
export const lfu: EvictionPlugin = {
  name: "lfu",
  about: "evicts the entry with the fewest hits, of equals the least recently used",
  source: "SGLang (lfu)",
  ...byScore("accessCount", "lastAccess"),
};
