import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** First inserted, last evicted, however often it is used; of what one request inserted, in release order. */
export const filo: EvictionPlugin = {
  name: "filo",
  about: "last inserted first, however often it is used",
  source: "SGLang (filo)",
  create: byScore("-createdAt", "releaseOrder"),
};
