import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByUse } from "./by-use.ts";
import { columnsOfRecency } from "./places.ts";

/**
 * Greedy-Dual-Size-Frequency: evicts the entry with the lowest priority L + F · C / S, where F is the number of its uses, C its cost,
 * S its size, and L the priority of the last victim when the entry was last used: entries that are not used any more are overtaken
 * (Cherkasova: Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy, HP Labs HPL-98-69R1, 1998).
 *
 * Here the cost is the work of recomputing the entry, attention to its prefix included, and the size is its length in tokens. Of
 * equals the least recently used is evicted. L does not decrease: an entry that was referenced while others were evicted may have a
 * priority below L. After a split both halves have the uses and L of the entry.
 */
class Gdsf extends ByUse {
  readonly #cost: Float64Array;
  readonly #tokens: Uint32Array;
  readonly #uses: Float64Array;
  /** By entry: L at its last use. */
  readonly #ageAtUse: Float64Array;
  #age = 0;

  constructor(context: EvictionContext) {
    super(context);
    const { key, recomputeCost, tokens } = context.columns;
    this.#cost = recomputeCost;
    this.#tokens = tokens;
    this.#uses = new Float64Array(key.length);
    this.#ageAtUse = new Float64Array(key.length);
  }

  override published(entry: EntryId): void {
    this.#uses[entry] = 1;
    this.#ageAtUse[entry] = this.#age;
  }

  override hit(entry: EntryId): void {
    this.#uses[entry]++;
    this.#ageAtUse[entry] = this.#age;
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    this.#ageAtUse[upper] = this.#ageAtUse[lower];
    super.split(lower, upper);
  }

  protected override score(entry: EntryId): number {
    return this.#ageAtUse[entry] + (this.#uses[entry] * this.#cost[entry]) / this.#tokens[entry];
  }

  protected override evicted(_entry: EntryId, score: number): void {
    this.#age = Math.max(this.#age, score);
  }
}

export const gdsf: EvictionPlugin = {
  name: "gdsf",
  about: "evicts the lowest sum of uses times recomputation cost per token and an age that grows with evictions",
  source: "GDSF: Cherkasova, HP Labs 1998",
  onlyByName: true,
  columns: (rules) => ["recomputeCost", "tokens", ...columnsOfRecency(rules)],
  create: (context) => new Gdsf(context),
};
