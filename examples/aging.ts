import { byScore, type EntryId, type EvictionContext, type EvictionPlugin, type EvictionPolicy } from "kvlab";

/**
 * Least frequently used with dynamic aging (LFU-DA, Arlitt et al. 2000): the priority of an entry is its number of uses plus
 * the age of the cache at its last use; the age of the cache is the priority of the last victim. So entries that were used
 * often in the past, but not recently, are evicted eventually.
 *
 * The policy has its own state: arrays by entry, reset in `published`, because the numbers of entries are reused. `byScore`
 * orders the entries; it reads the scores when an entry is added.
 */
class Aging implements EvictionPolicy {
  readonly #uses: Uint32Array;
  readonly #priority: Float64Array;
  readonly #order: EvictionPolicy;
  #age = 0;

  constructor(context: EvictionContext) {
    const entryCount = context.columns.key.length;
    this.#uses = new Uint32Array(entryCount);
    this.#priority = new Float64Array(entryCount);
    this.#order = byScore((entry) => this.#priority[entry], "lastAccess", "releaseOrder").create(context);
  }

  published(entry: EntryId): void {
    this.#uses[entry] = 0;
    this.hit(entry);
  }

  hit(entry: EntryId): void {
    this.#uses[entry]++;
    this.#priority[entry] = this.#uses[entry] + this.#age;
  }

  /** Both parts of a split run have the uses of the whole. The underlying order is notified, too. */
  split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    this.#priority[upper] = this.#priority[lower];
    this.#order.split?.(lower, upper);
  }

  add(entry: EntryId): void {
    this.#order.add(entry);
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    if (why === "evicted") this.#age = this.#priority[entry];
    this.#order.remove(entry, why);
  }

  victim(now: number): EntryId | undefined {
    return this.#order.victim(now);
  }
}

const aging: EvictionPlugin = {
  name: "aging",
  about: "least frequently used with dynamic aging",
  source: "LFU-DA: Arlitt et al. 2000",
  columns: ["lastAccess", "releaseOrder"],
  create: (context) => new Aging(context),
};

export default aging;
