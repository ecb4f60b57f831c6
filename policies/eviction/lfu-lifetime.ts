import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";
import { GhostList } from "./ghost-list.ts";

/** Evicted contents whose counts are kept, as a multiple of the cache. */
const ghostShare = 8;

/**
 * Evicts the entry whose content was used most rarely, of equals the least recently used. The count of a content is kept after its
 * eviction (perfect LFU: Breslau, Cao, Fan, Phillips, Shenker: Web Caching and Zipf-like Distributions, INFOCOM 1999), whereas
 * the count of `lfu` begins again with each insertion. Both an insertion and a hit are uses.
 *
 * Difference: the counts of at most eight times as many contents as the cache has blocks are kept, those of the contents that
 * were evicted last. After a split both halves have the count.
 */
export const lfuLifetime: EvictionPlugin = {
  name: "lfu-lifetime",
  about:
    "evicts the entry with the fewest uses, those before its last eviction included; ties: the least recently used",
  source: "perfect LFU: Breslau et al., INFOCOM 1999",
  onlyByName: true,
  columns: ["lastAccess"],
  create(context): EvictionPolicy {
    const { key } = context.columns;
    const uses = new Float64Array(key.length);
    const most = ghostShare * key.length;
    const ghosts = new GhostList(most);
    const order = byScore((entry) => uses[entry], "lastAccess").create(context);
    return {
      published: (entry) => void (uses[entry] = 1 + (ghosts.take(key[entry]) ?? 0)),
      hit: (entry) => void uses[entry]++,
      add: (entry) => order.add(entry),
      remove(entry, why) {
        if (why === "evicted") ghosts.add(key[entry], most, uses[entry]);
        order.remove(entry, why);
      },
      victim: (now) => order.victim(now),
      split(lower, upper) {
        uses[upper] = uses[lower];
        order.split?.(lower, upper);
      },
    };
  },
};
