import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { columnsOfRecency } from "./places.ts";

/**
 * Evicts the entry with the fewest hits per token, of equals the least recently used (SGLang PR 30300, `hpt`). It differs from
 * `lfu` where entries have different lengths: in a radix tree or prompt table, and for partial blocks.
 */
class HitsPerToken extends ByUse {
  readonly #hits: Uint32Array;
  readonly #tokens: Uint32Array;

  constructor(context: EvictionContext) {
    super(context);
    this.#hits = context.columns.accessCount;
    this.#tokens = context.columns.tokens;
  }

  protected override score(entry: EntryId): number {
    return this.#hits[entry] / this.#tokens[entry];
  }
}

export const hitsPerToken: EvictionPlugin = {
  name: "hits-per-token",
  about: "evicts the entry with the fewest hits per token, of equals the least recently used",
  source: "SGLang (hpt, PR 30300)",
  onlyByName: true,
  columns: (rules) => ["accessCount", "tokens", ...columnsOfRecency(rules)],
  create: (context) => new HitsPerToken(context),
};
