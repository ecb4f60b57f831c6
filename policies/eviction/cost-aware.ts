import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { columnsOfRecency } from "./places.ts";

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
class CostAware extends ByUse {
  readonly #cost: Float64Array;
  readonly #tokens: Uint32Array;
  /** By entry: log2 of its uses; a use at request r is 2 ^ (r / halfLife). */
  readonly #uses: Float64Array;
  /** The latest request, in half-lives. */
  #now = 0;

  constructor(context: EvictionContext) {
    super(context);
    const { key, recomputeCost, tokens } = context.columns;
    this.#cost = recomputeCost;
    this.#tokens = tokens;
    this.#uses = new Float64Array(key.length);
  }

  begin({ id }: RequestView): void {
    this.#now = Math.max(this.#now, id / halfLife);
  }

  override published(entry: EntryId): void {
    this.#uses[entry] = this.#now;
  }

  override hit(entry: EntryId): void {
    this.#uses[entry] = this.#now + Math.log2(1 + 2 ** (this.#uses[entry] - this.#now));
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    super.split(lower, upper);
  }

  protected override score(entry: EntryId): number {
    return this.#uses[entry] + Math.log2(this.#cost[entry] / this.#tokens[entry]);
  }
}

export const costAware: EvictionPlugin = {
  name: "cost-aware",
  about: "evicts the lowest product of decayed uses and recomputation cost per token",
  source: "FLOPs per byte: Marconi, MLSys 2025; Mooncake issue 1998",
  onlyByName: true,
  columns: (rules) => ["recomputeCost", "tokens", ...columnsOfRecency(rules)],
  create: (context) => new CostAware(context),
};
