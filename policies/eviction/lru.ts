import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Least recently used first; what one request used together goes in the order in which it was let go. */
export const lru: EvictionPlugin = {
  name: "lru",
  about: "least recently used first",
  source: "vLLM, SGLang, TGI, LightLLM",
  create: byScore("lastAccess"),
};
