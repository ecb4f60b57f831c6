import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { columnsOfRecency } from "./places.ts";

/**
 * Evicts the entry with the fewest hits since its insertion, of equals the least recently used (SGLang's `lfu` strategy). The count
 * begins at 0 with each insertion; `lfu-lifetime` keeps it. After a split both halves keep the count.
 */
class Lfu extends ByUse {
  readonly #hits: Uint32Array;

  constructor(context: EvictionContext) {
    super(context);
    this.#hits = context.columns.accessCount;
  }

  protected override score(entry: EntryId): number {
    return this.#hits[entry];
  }
}

export const lfu: EvictionPlugin = {
  name: "lfu",
  about: "evicts the entry with the fewest hits, of equals the least recently used",
  source: "SGLang (lfu)",
  columns: (rules) => ["accessCount", ...columnsOfRecency(rules)],
  create: (context) => new Lfu(context),
};
