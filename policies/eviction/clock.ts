import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { InsertionPlaces } from "./places.ts";

const unused = 0;
const used = 1;

/**
 * CLOCK, FIFO with a second chance: entries are in a queue in the order of insertion, with a bit that a hit sets. An eviction
 * moves entries with the bit from the front of the queue to its end and clears their bits, until the first entry without it,
 * which is the victim (Corbató: A Paging Experiment with the Multics System, MIT Project MAC, 1968).
 *
 * Entries with and without the bit are in two lists, so that the victim is found without a search; each entry that is moved
 * was hit before. Difference: entries that are referenced or, in a tree, have children are passed over: they keep their
 * place and their bit.
 */
class Clock extends ByLists {
  readonly #places: InsertionPlaces;

  constructor(context: EvictionContext) {
    super(context, 2);
    this.#places = new InsertionPlaces(context);
  }

  published(entry: EntryId): void {
    this.lists.insert(entry, unused, this.#places.inserted(entry));
  }

  hit(entry: EntryId): void {
    if (this.lists.listOf(entry) === unused) this.lists.move(entry, used, this.lists.place[entry]);
  }

  victim(): EntryId | undefined {
    // If all have the bit, a whole turn clears all bits, and the first one is the victim.
    return this.lists.first(unused) ?? this.lists.first(used);
  }

  protected override evicted(victim: EntryId): void {
    const { lists } = this;
    const { place } = lists;
    const end = lists.listOf(victim) === used ? Number.POSITIVE_INFINITY : place[victim];
    for (let entry = lists.first(used); entry !== undefined && place[entry] < end; entry = lists.first(used))
      lists.move(entry, unused, this.#places.end());
  }
}

export const clock: EvictionPlugin = {
  name: "clock",
  about: "first in, first out, with a second chance for entries that were hit",
  source: "CLOCK: Corbató, MIT Project MAC 1968",
  onlyByName: true,
  columns: ["createdAt"],
  create: (context) => new Clock(context),
};
