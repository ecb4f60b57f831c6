import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Least often matched first, of equals the least recently used. A run that is cut was matched as often as the whole. */
export const lfu: EvictionPlugin = {
  name: "lfu",
  about: "fewest hits first, of equals the least recently used",
  source: "SGLang (lfu)",
  create: byScore("accessCount", "lastAccess"),
};
