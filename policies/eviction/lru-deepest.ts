import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Least recently used first; of what was used last at the same time, the one with most tokens up to its end. */
export const lruDeepest: EvictionPlugin = {
  name: "lru-deepest",
  about: "least recently used first, of equals the one with most tokens before it",
  source: "vLLM v0",
  likeLru: true,
  create: byScore("lastAccess", "-depth"),
};
