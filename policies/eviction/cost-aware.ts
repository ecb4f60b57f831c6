import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { columnsOfRecency } from "./places.ts";

/** Requests after which a use counts half. */
const halfLife = 1000;
/** Logarithms of costs that are kept; a power of 2. */
const logCount = 1 << 10;

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
  /** The last uses that got a hit at this time, and with it: consecutive blocks mostly have equal uses. */
  #usesBefore = Number.NaN;
  #usesAfter = 0;
  // By block of a prompt, modulo their length: a cost per token, and its log2.
  readonly #ratio = new Float64Array(logCount);
  readonly #log = new Float64Array(logCount);
  readonly #depth: Uint32Array;
  readonly #blockTokens: number;

  constructor(context: EvictionContext) {
    super(context);
    const { key, recomputeCost, tokens, depth } = context.columns;
    this.#cost = recomputeCost;
    this.#tokens = tokens;
    this.#uses = new Float64Array(key.length);
    this.#depth = depth;
    this.#blockTokens = context.blockTokens;
  }

  begin({ id }: RequestView): void {
    this.#now = Math.max(this.#now, id / halfLife);
    this.#usesBefore = Number.NaN;
  }

  override published(entry: EntryId): void {
    this.#uses[entry] = this.#now;
  }

  override hit(entry: EntryId): void {
    const uses = this.#uses[entry];
    if (uses !== this.#usesBefore) {
      this.#usesBefore = uses;
      this.#usesAfter = this.#now + Math.log2(1 + 2 ** (uses - this.#now));
    }
    this.#uses[entry] = this.#usesAfter;
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    super.split(lower, upper);
  }

  protected override score(entry: EntryId): number {
    const ratio = this.#cost[entry] / this.#tokens[entry];
    const at = Math.floor(this.#depth[entry] / this.#blockTokens) & (logCount - 1);
    if (this.#ratio[at] !== ratio) {
      this.#ratio[at] = ratio;
      this.#log[at] = Math.log2(ratio);
    }
    return this.#uses[entry] + this.#log[at];
  }
}

export const costAware: EvictionPlugin = {
  name: "cost-aware",
  about: "evicts the lowest product of decayed uses and recomputation cost per token",
  source: "FLOPs per byte: Marconi, MLSys 2025; Mooncake issue 1998",
  onlyByName: true,
  columns: (rules) => ["depth", "recomputeCost", "tokens", ...columnsOfRecency(rules)],
  create: (context) => new CostAware(context),
};
