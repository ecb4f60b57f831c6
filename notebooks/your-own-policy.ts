import { byScore, type EvictionPlugin } from "kvlab";

/**
 * Least recently used, but content with more hits is evicted later. Hits are counted up to a cap: with `cap=0` this is LRU, with
 * a high cap LFU, which keeps what was popular long ago.
 */
const cappedHits: EvictionPlugin = {
  name: "capped-hits",
  about: "fewest hits first, counted up to a cap; then least recently used",
  source: "notebooks/your-own-policy.html",
  options: { cap: { default: 1, min: 0, max: 1000, about: "hits that are counted at most" } },
  columns: ["accessCount", "lastAccess", "releaseOrder"],
  create(context) {
    const { cap } = context.options;
    const score = byScore((entry, { accessCount }) => Math.min(accessCount[entry], cap), "lastAccess", "releaseOrder");
    return score.create(context);
  },
};

export default cappedHits;
