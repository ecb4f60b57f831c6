import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the most recently used entry: optimal for prompts that repeat in a cycle larger than the cache. */
export const mru: EvictionPlugin = {
  name: "mru",
  about: "evicts the most recently used entry",
  source: "SGLang (mru)",
  ...byScore("-lastAccess"),
};
