import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** First inserted, first evicted, however often it is used; of what one request inserted, in release order. */
export const fifo: EvictionPlugin = {
  name: "fifo",
  about: "first inserted first, however often it is used",
  source: "SGLang (fifo), vLLM PrefixPool's cap (PR 1669)",
  create: byScore("createdAt", "releaseOrder"),
};
