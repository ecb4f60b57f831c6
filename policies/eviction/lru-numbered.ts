import { byScore } from "../../core/plugins/by-score.ts";
import type { EvictionPlugin } from "../../core/plugins/index.ts";

const order = byScore("lastAccess", (entry) => entry);

/**
 * Evicts the least recently used entry; of equals the one with the smallest number. Numbers of evicted entries are used
 * again, the last one first.
 */
export const lruNumbered: EvictionPlugin = {
  name: "lru-numbered",
  about: "evicts the least recently used entry, of equals the one with the smallest number",
  source: "TGI (radix.rs: an ordered set of access time and node)",
  likeLru: true,
  columns: () => ["lastAccess"],
  create: order.create,
};
