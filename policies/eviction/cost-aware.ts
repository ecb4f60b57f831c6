import { byScore } from "../../core/plugins/by-score.ts";
import type { EntryId, EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";

/** Requests after which a use counts half. */
const halfLife = 1000;

/**
 * Evicts the entry that is expected to save the least computation for its space: its uses, of which each counts half after 1,000
 * requests, times the FLOPs of recomputing it per byte of its KV (FLOPs per byte: Pan et al.: Marconi, MLSys 2025; with decayed
 * uses: `radix_cost_aware` in Mooncake issue 1998). Of equals the least recently used is evicted.
 *
 * Bytes are proportional to tokens, so that the FLOPs per byte grow with the depth of the entry by attention only. All uses
 * decay alike, so that the order of two entries changes only with their uses: the score is a logarithm, to which time adds
 * nothing. Difference to Marconi: no entry is refused, and the uses are not a tuned term beside recency. After a split both
 * halves have the uses.
 */
export const costAware: EvictionPlugin = {
  name: "cost-aware",
  about: "evicts the lowest product of decayed uses and recomputation cost per token",
  source: "FLOPs per byte: Marconi, MLSys 2025; Mooncake issue 1998",
  onlyByName: true,
  columns: ["lastAccess", "recomputeCost", "tokens"],
  create(context): EvictionPolicy {
    const { recomputeCost, tokens } = context.columns;
    /** By entry: log2 of its uses; a use at request r is 2 ^ (r / halfLife). */
    const uses = new Float64Array(context.columns.key.length);
    let now = 0;
    const score = (entry: EntryId) => uses[entry] + Math.log2(recomputeCost[entry] / tokens[entry]);
    const order = byScore(score, "lastAccess").create(context);
    return {
      begin: ({ id }) => void (now = Math.max(now, id / halfLife)),
      published: (entry) => void (uses[entry] = now),
      hit: (entry) => void (uses[entry] = now + Math.log2(1 + 2 ** (uses[entry] - now))),
      add: (entry) => order.add(entry),
      remove: (entry, why) => order.remove(entry, why),
      victim: (time) => order.victim(time),
      split(lower, upper) {
        uses[upper] = uses[lower];
        order.split?.(lower, upper);
      },
    };
  },
};
