import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/**
 * Evicts the entry with the fewest hits per token, of equals the least recently used (SGLang PR 30300, `hpt`). It differs from
 * `lfu` where entries have different lengths: in a radix tree or prompt table, and for partial blocks.
 */
export const hitsPerToken: EvictionPlugin = {
  name: "hits-per-token",
  about: "evicts the entry with the fewest hits per token, of equals the least recently used",
  source: "SGLang (hpt, PR 30300)",
  onlyByName: true,
  columns: ["accessCount", "tokens", "lastAccess"],
  create: byScore((entry, { accessCount, tokens }) => accessCount[entry] / tokens[entry], "lastAccess").create,
};
