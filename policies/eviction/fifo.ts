import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the entry that was inserted first, regardless of its hits; entries of one insertion go in release order. */
export const fifo: EvictionPlugin = {
  name: "fifo",
  about: "evicts the entry that was inserted first, regardless of hits",
  source: "SGLang (fifo), vLLM PrefixPool's cap (PR 1669)",
  ...byScore("createdAt", "releaseOrder"),
};
