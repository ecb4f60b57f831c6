import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { GhostList } from "./ghost-list.ts";
import { columnsOfRecency, RecencyPlaces } from "./places.ts";

const once = 0;
const often = 1;

/**
 * ARC: entries that were used once (T1) and those that were used more often (T2) are in two lists in LRU order, each with the
 * ghosts of the contents evicted from it (B1, B2). T1 is evicted from while it is longer than a target p, otherwise T2. A ghost of
 * B1 that is inserted again makes p larger, one of B2 smaller (Megiddo, Modha: ARC: A Self-Tuning, Low Overhead Replacement
 * Cache, FAST 2003).
 *
 * With c the most entries that were stored at a time, T1 and B1 together have at most c contents, all lists at most 2c, as in the
 * paper. Differences: a ghost is found when its content is published again, after the evictions for it, so that a victim does not
 * depend on the content it is evicted for (the paper's condition "x in B2 and |T1| = p"). If the chosen list has no evictable
 * entry, the other one is evicted from.
 */
class Arc extends ByLists {
  readonly #key: Uint32Array;
  readonly #uses: RecencyPlaces;
  /** B1 and B2. */
  readonly #ghosts: readonly [once: GhostList, often: GhostList];
  /** The target p of the length of T1, in entries. */
  #target = 0;

  constructor(context: EvictionContext) {
    super(context, 2);
    this.#key = context.columns.key;
    this.#uses = new RecencyPlaces(context);
    this.#ghosts = [new GhostList(this.#key.length), new GhostList(2 * this.#key.length)];
  }

  published(entry: EntryId): void {
    const list = this.#adapt(this.#key[entry]) ? often : once;
    this.lists.insert(entry, list, this.#uses.end());
    this.#limitGhosts();
  }

  hit(entry: EntryId): void {
    if (this.lists.listOf(entry) === once) this.lists.move(entry, often, this.#uses.end());
  }

  override add(entry: EntryId): void {
    this.lists.addAt(entry, this.#uses.released(entry));
  }

  victim(): EntryId | undefined {
    const { lists } = this;
    return lists.size(once) > this.#target
      ? (lists.first(once) ?? lists.first(often))
      : (lists.first(often) ?? lists.first(once));
  }

  protected override evicted(victim: EntryId): void {
    this.#ghosts[this.lists.listOf(victim) === once ? 0 : 1].add(this.#key[victim], Number.POSITIVE_INFINITY);
  }

  /** Removes the ghost of this content, if there is one, and changes the target. Returns whether there was one. */
  #adapt(key: number): boolean {
    const [once, often] = this.#ghosts;
    const { count: onceCount } = once;
    const { count: oftenCount } = often;
    if (once.take(key) !== undefined) {
      this.#target = Math.min(this.#target + Math.max(oftenCount / onceCount, 1), this.lists.largest);
      return true;
    }
    if (often.take(key) === undefined) return false;
    this.#target = Math.max(this.#target - Math.max(onceCount / oftenCount, 1), 0);
    return true;
  }

  #limitGhosts(): void {
    const { lists } = this;
    const [ghostsOfOnce, ghostsOfOften] = this.#ghosts;
    ghostsOfOnce.trim(lists.largest - lists.size(once));
    ghostsOfOften.trim(2 * lists.largest - lists.total - ghostsOfOnce.count);
  }
}

export const arc: EvictionPlugin = {
  name: "arc",
  about: "LRU lists of entries used once and more often, whose lengths follow the ghosts of evicted contents",
  source: "ARC: Megiddo and Modha, FAST 2003",
  onlyByName: true,
  columns: columnsOfRecency,
  create: (context) => new Arc(context),
};
