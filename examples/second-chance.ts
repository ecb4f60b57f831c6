import type { EntryId, EvictionContext, EvictionPlugin, EvictionPolicy } from "kvlab";

const none = -1;

/**
 * FIFO with second chance, also called CLOCK (Corbató 1968): all entries are on a ring; a hand passes over entries that
 * were hit since its last pass, clearing their reference bit, and evicts the first evictable entry whose bit is clear.
 *
 * `victim()` must have no side effects, so it only searches. `remove(entry, "evicted")` then moves the hand and clears the
 * bits that it passes. Entries that a request references stay on the ring, and the hand passes over them.
 */
class SecondChance implements EvictionPolicy {
  // By entry: its neighbours on the ring (`none`: not on the ring), its reference bit, and whether it is evictable.
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  readonly #wasHit: Uint8Array;
  readonly #isEvictable: Uint8Array;
  #evictableCount = 0;
  #hand: EntryId = none;

  constructor({ columns }: EvictionContext) {
    const entryCount = columns.key.length;
    this.#next = new Int32Array(entryCount).fill(none);
    this.#previous = new Int32Array(entryCount).fill(none);
    this.#wasHit = new Uint8Array(entryCount);
    this.#isEvictable = new Uint8Array(entryCount);
  }

  /** Inserts the entry after all others, that is, before the hand. Its number may be that of an earlier, removed entry. */
  published(entry: EntryId): void {
    this.#unlink(entry);
    this.#link(entry, this.#hand);
    this.#wasHit[entry] = 0;
  }

  hit(entry: EntryId): void {
    this.#wasHit[entry] = 1;
  }

  /** `upper` is a new entry, for which `published` was called. It gets the position and the bit of `lower`. */
  split(lower: EntryId, upper: EntryId): void {
    this.#unlink(upper);
    this.#link(upper, lower);
    if (this.#hand === lower) this.#hand = upper;
    this.#wasHit[upper] = this.#wasHit[lower];
  }

  /** An entry whose tail was evicted is added again, before the hand. */
  add(entry: EntryId): void {
    if (this.#next[entry] === none) this.#link(entry, this.#hand);
    this.#isEvictable[entry] = 1;
    this.#evictableCount++;
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "expired" | "dropped"): void {
    if (why === "evicted") this.#sweepTo(entry);
    this.#isEvictable[entry] = 0;
    this.#evictableCount--;
    if (why !== "referenced") this.#unlink(entry);
  }

  victim(): EntryId | undefined {
    if (this.#evictableCount === 0) return undefined;
    let first: EntryId = none;
    let entry = this.#hand;
    do {
      if (this.#isEvictable[entry] === 1) {
        if (this.#wasHit[entry] === 0) return entry;
        if (first === none) first = entry;
      }
      entry = this.#next[entry];
    } while (entry !== this.#hand);
    // All were hit: after a whole turn of the hand their bits would be clear, and the first one would be evicted.
    return first;
  }

  /** Moves the hand past the victim and clears the bits that it passes; a victim that was hit ends a whole turn. */
  #sweepTo(victim: EntryId): void {
    const last = this.#wasHit[victim] === 1 ? this.#previous[this.#hand] : victim;
    for (let entry = this.#hand; ; entry = this.#next[entry]) {
      if (this.#isEvictable[entry] === 1) this.#wasHit[entry] = 0;
      if (entry === last) break;
    }
    this.#hand = this.#next[victim];
  }

  /** Inserts an entry into the ring before another one; `none`: the ring is empty. */
  #link(entry: EntryId, before: EntryId): void {
    if (before === none) {
      this.#hand = this.#next[entry] = this.#previous[entry] = entry;
      return;
    }
    const after = this.#previous[before];
    this.#next[after] = this.#previous[before] = entry;
    this.#next[entry] = before;
    this.#previous[entry] = after;
  }

  #unlink(entry: EntryId): void {
    const next = this.#next[entry];
    if (next === none) return;
    if (this.#hand === entry) this.#hand = next === entry ? none : next;
    this.#next[this.#previous[entry]] = next;
    this.#previous[next] = this.#previous[entry];
    this.#next[entry] = this.#previous[entry] = none;
  }
}

const secondChance: EvictionPlugin = {
  name: "second-chance",
  about: "evicts the oldest entry that was not hit since the hand last passed it",
  source: "CLOCK: Corbató 1968",
  create: (context) => new SecondChance(context),
};

export default secondChance;
