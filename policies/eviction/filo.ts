import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

/** Evicts the entry that was inserted last, regardless of its hits; entries of one insertion go in release order. */
export const filo: EvictionPlugin = {
  name: "filo",
  about: "evicts the entry that was inserted last, regardless of hits",
  source: "SGLang (filo)",
  ...byScore("-createdAt", "releaseOrder"),
};
