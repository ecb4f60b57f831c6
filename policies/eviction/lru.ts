import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the least recently used entry; entries released by the same request go in release order. */
export const lru: EvictionPlugin = {
  name: "lru",
  about: "evicts the least recently used entry",
  source: "vLLM, SGLang, TGI, LightLLM",
  ...byScore("lastAccess"),
};
