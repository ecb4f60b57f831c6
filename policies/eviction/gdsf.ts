import { byScore } from "../../core/plugins/by-score.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";

/**
 * Greedy-Dual-Size-Frequency: evicts the entry with the lowest priority L + F · C / S, where F is the number of its uses, C its cost,
 * S its size, and L the priority of the last victim when the entry was last used: entries that are not used any more are overtaken
 * (Cherkasova: Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy, HP Labs HPL-98-69R1, 1998).
 *
 * Here the cost is the work of recomputing the entry, attention to its prefix included, and the size is its length in tokens. Of
 * equals the least recently used is evicted. After a split both halves have the uses and L of the entry.
 */
export const gdsf: EvictionPlugin = {
  name: "gdsf",
  about: "evicts the lowest sum of uses times recomputation cost per token and an age that grows with evictions",
  source: "GDSF: Cherkasova, HP Labs 1998",
  onlyByName: true,
  columns: ["lastAccess", "recomputeCost", "tokens"],
  create(context): EvictionPolicy {
    const { recomputeCost, tokens } = context.columns;
    const entryCount = context.columns.key.length;
    const uses = new Float64Array(entryCount);
    /** By entry: L at its last use. */
    const ageAtUse = new Float64Array(entryCount);
    let age = 0;
    const priority = (entry: EntryId) => ageAtUse[entry] + (uses[entry] * recomputeCost[entry]) / tokens[entry];
    const order = byScore(priority, "lastAccess").create(context);
    const use = (entry: EntryId, count: number) => {
      uses[entry] = count;
      ageAtUse[entry] = age;
    };
    return {
      published: (entry) => use(entry, 1),
      hit: (entry) => use(entry, uses[entry] + 1),
      add: (entry) => order.add(entry),
      remove(entry, why) {
        if (why === "evicted") age = Math.max(age, priority(entry));
        order.remove(entry, why);
      },
      victim: (now) => order.victim(now),
      split(lower, upper) {
        uses[upper] = uses[lower];
        ageAtUse[upper] = ageAtUse[lower];
        order.split?.(lower, upper);
      },
    };
  },
};
