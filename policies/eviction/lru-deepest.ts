import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the least recently used entry; of equals the deepest, that is, the one with the longest prefix. */
export const lruDeepest: EvictionPlugin = {
  name: "lru-deepest",
  about: "evicts the least recently used entry, of equals the deepest",
  source: "vLLM v0",
  likeLru: true,
  ...byScore("lastAccess", "-depth"),
};
