import { byScore } from "../../core/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins.ts";

/** Least recently used first; of what one request used last, in release order. */
export const lru: EvictionPlugin = {
  name: "lru",
  about: "least recently used first",
  source: "vLLM, SGLang, TGI, LightLLM",
  create: byScore("lastAccess", "releaseOrder"),
};
