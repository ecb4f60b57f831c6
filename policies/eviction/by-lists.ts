import type { EntryId, EvictionContext, EvictionPolicy, RequestView } from "../../core/plugins/index.ts";
import { EntryLists } from "./entry-lists.ts";

/**
 * Base of policies with lists of entries, such as CLOCK, 2Q and ARC. Subclasses choose the list of a new entry, the victim, and the
 * changes that follow from a hit and an eviction. Referenced entries are members of their lists, but never victims. After a
 * split both halves are in the same list at the same place: the upper half is evictable only after the lower one is evicted.
 */
export abstract class ByLists implements EvictionPolicy {
  protected readonly lists: EntryLists;

  constructor({ columns }: EvictionContext, listCount: number) {
    this.lists = new EntryLists(columns.key.length, listCount);
  }

  abstract published(entry: EntryId, request: RequestView): void;
  abstract victim(): EntryId | undefined;
  /** The entry is evicted; it is still a member of its list. */
  protected abstract evicted(entry: EntryId): void;

  add(entry: EntryId): void {
    this.lists.add(entry);
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    if (why === "referenced") {
      this.lists.block(entry);
      return;
    }
    if (why === "evicted") this.evicted(entry);
    this.lists.remove(entry);
  }

  takeMany(into: Int32Array, from: number, to: number): number {
    for (let at = from | 0; at < to; at++) {
      const victim = this.victim();
      if (victim === undefined) return at;
      this.evicted(victim);
      this.lists.remove(victim);
      into[at] = victim;
    }
    return to;
  }

  split(lower: EntryId, upper: EntryId): void {
    this.lists.move(upper, this.lists.listOf(lower), this.lists.place[lower]);
  }
}
