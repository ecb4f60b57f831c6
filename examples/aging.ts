import { byScore, type EntryId, type EvictionContext, type EvictionPlugin, type EvictionPolicy } from "kvlab";

/**
 * Least frequently used, with dynamic aging (LFU-DA, Arlitt et al. 2000): an entry is worth its uses and the age of the
 * cache at its last use; the cache is as old as the worth of what it gave up last. So what was once used much and is no
 * longer goes in the end.
 *
 * It has state of its own: arrays by entry, begun anew in `published`, because numbers of entries are used again. An
 * order by score keeps the entries; its scores are read when an entry is added.
 */
class Aging implements EvictionPolicy {
  readonly #uses: Uint32Array;
  readonly #worth: Float64Array;
  readonly #order: EvictionPolicy;
  #age = 0;

  constructor(context: EvictionContext) {
    const entryCount = context.columns.key.length;
    this.#uses = new Uint32Array(entryCount);
    this.#worth = new Float64Array(entryCount);
    this.#order = byScore((entry) => this.#worth[entry], "lastAccess", "releaseOrder").create(context);
  }

  published(entry: EntryId): void {
    this.#uses[entry] = 0;
    this.hit(entry);
  }

  hit(entry: EntryId): void {
    this.#uses[entry]++;
    this.#worth[entry] = this.#uses[entry] + this.#age;
  }

  /** Both halves of a run were used as often as the whole. The underlying order is notified, too. */
  split(lower: EntryId, upper: EntryId): void {
    this.#uses[upper] = this.#uses[lower];
    this.#worth[upper] = this.#worth[lower];
    this.#order.split?.(lower, upper);
  }

  add(entry: EntryId): void {
    this.#order.add(entry);
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    if (why === "evicted") this.#age = this.#worth[entry];
    this.#order.remove(entry, why);
  }

  victim(now: number): EntryId | undefined {
    return this.#order.victim(now);
  }
}

const aging: EvictionPlugin = {
  name: "aging",
  about: "least frequently used first, where old uses count less",
  source: "LFU-DA: Arlitt et al. 2000",
  columns: ["lastAccess", "releaseOrder"],
  create: (context) => new Aging(context),
};

export default aging;
