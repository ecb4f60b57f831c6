import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Most recently used first: for prompts that come round in a circle which is larger than the cache. */
export const mru: EvictionPlugin = {
  name: "mru",
  about: "most recently used first",
  source: "SGLang (mru)",
  create: byScore("-lastAccess"),
};
