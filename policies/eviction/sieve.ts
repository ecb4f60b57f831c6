import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { InsertionPlaces } from "./places.ts";

/**
 * SIEVE: entries are in a queue in the order of insertion, with a bit that a hit sets. A hand moves from old to new entries and
 * clears the bits that it passes; the first entry without the bit is evicted, and the hand stays there. After the newest entry
 * it continues with the oldest. Unlike in CLOCK, entries that are passed keep their place (Zhang, Yang, Yue, Vigfusson,
 * Rashmi: SIEVE is Simpler than LRU, NSDI 2024).
 *
 * Entries before and behind the hand, with and without the bit, are in four lists, so that the victim is found without a
 * search; each bit that is cleared was set by a hit. Difference: the hand passes over entries that are referenced or, in a
 * tree, have children, without clearing their bits.
 */
class Sieve extends ByLists {
  readonly #places: InsertionPlaces;
  readonly #wasHit: Uint8Array;
  /** Place of the last victim: entries with a larger place are ahead of the hand. */
  #hand = Number.NEGATIVE_INFINITY;
  /** First of the two lists ahead of the hand (without and with the bit), and of those behind it; swapped after each turn. */
  #ahead = 0;
  #behind = 2;

  constructor(context: EvictionContext) {
    super(context, 4);
    this.#places = new InsertionPlaces(context);
    this.#wasHit = new Uint8Array(context.columns.key.length);
  }

  published(entry: EntryId): void {
    this.#wasHit[entry] = 0;
    this.lists.insert(entry, this.#ahead, this.#places.inserted(entry));
  }

  hit(entry: EntryId): void {
    this.#wasHit[entry] = 1;
    this.#moveToItsList(entry);
  }

  override add(entry: EntryId): void {
    // The hand may have passed the entry while it was not evictable.
    this.#moveToItsList(entry);
    super.add(entry);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#wasHit[upper] = this.#wasHit[lower];
    super.split(lower, upper);
  }

  victim(): EntryId | undefined {
    const { lists } = this;
    return (
      lists.first(this.#ahead) ??
      // After a turn of the hand the bits ahead of it are clear; after two turns, all.
      lists.first(this.#behind) ??
      lists.first(this.#ahead + 1) ??
      lists.first(this.#behind + 1)
    );
  }

  protected override evicted(victim: EntryId): void {
    while (this.lists.listOf(victim) !== this.#ahead) {
      this.#passBefore(Number.POSITIVE_INFINITY);
      [this.#ahead, this.#behind] = [this.#behind, this.#ahead];
    }
    this.#hand = this.lists.place[victim];
    this.#passBefore(this.#hand);
  }

  /** The hand passes the entries with the bit before this place; those without it are behind the hand by their place. */
  #passBefore(place: number): void {
    const { lists } = this;
    const hit = this.#ahead + 1;
    for (let entry = lists.first(hit); entry !== undefined && lists.place[entry] < place; entry = lists.first(hit)) {
      this.#wasHit[entry] = 0;
      lists.move(entry, this.#behind, lists.place[entry]);
    }
  }

  #moveToItsList(entry: EntryId): void {
    const side = this.lists.place[entry] > this.#hand ? this.#ahead : this.#behind;
    const list = side + this.#wasHit[entry];
    if (this.lists.listOf(entry) !== list) this.lists.move(entry, list, this.lists.place[entry]);
  }
}

export const sieve: EvictionPlugin = {
  name: "sieve",
  about: "a hand passes entries that were hit and evicts the first other one; entries keep their place",
  source: "SIEVE: Zhang et al., NSDI 2024",
  onlyByName: true,
  columns: ["createdAt"],
  create: (context) => new Sieve(context),
};
