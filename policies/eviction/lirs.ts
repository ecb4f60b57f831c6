import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { GhostList } from "./ghost-list.ts";
import { columnsOfRecency, RecencyPlaces } from "./places.ts";

/** Lists: LIR entries in LRU order, and the queue of resident HIR entries. */
const lir = 0;
const hir = 1;

/** Share of LIR entries in the cache. */
const lirShare = 0.99;

/**
 * LIRS: an entry with a low inter-reference recency (LIR) is kept; one with a high one (HIR) is evicted in the order of its last use.
 * A HIR entry or ghost that is used again while its last use is more recent than that of some LIR entry becomes LIR, and the
 * least recently used LIR entry becomes HIR. LIR entries are 99 % of the cache (Jiang, Zhang: LIRS: An Efficient Low
 * Inter-reference Recency Set Replacement Policy to Improve Buffer Cache Performance, SIGMETRICS 2002).
 *
 * The paper's stack S contains an entry exactly if its last use is more recent than that of the least recently used LIR entry,
 * the bottom of S. So S is a number per entry and ghost. Differences: there are at most as many ghosts as entries; the oldest are
 * dropped. Entries that are referenced or, in a tree, have children are not the bottom of S. All entries are LIR until the first
 * eviction. If no HIR entry is evictable, the bottom of S is evicted; LIR entries that are missing since then are replaced by
 * the HIR entries that become LIR.
 */
class Lirs extends ByLists {
  readonly #key: Uint32Array;
  readonly #uses: RecencyPlaces;
  readonly #ghosts: GhostList;
  /** By entry: time of its last use, which orders S. The place of a HIR entry in its queue may be later. */
  readonly #lastUse: Float64Array;
  #isFull = false;

  constructor(context: EvictionContext) {
    super(context, 2);
    this.#key = context.columns.key;
    this.#uses = new RecencyPlaces(context);
    this.#ghosts = new GhostList(this.#key.length);
    this.#lastUse = new Float64Array(this.#key.length);
  }

  published(entry: EntryId): void {
    const lastUse = this.#ghosts.take(this.#key[entry]);
    const isLow = !this.#isFull || (lastUse !== undefined && this.#isInStack(lastUse));
    this.#lastUse[entry] = this.#uses.end();
    this.lists.insert(entry, isLow ? lir : hir, this.#lastUse[entry]);
    if (isLow) this.#limitLow();
  }

  hit(entry: EntryId): void {
    const wasHigh = this.lists.listOf(entry) === hir;
    const isLow = !wasHigh || this.#isInStack(this.#lastUse[entry]);
    this.#lastUse[entry] = this.#uses.end();
    this.lists.move(entry, isLow ? lir : hir, this.#lastUse[entry]);
    if (wasHigh && isLow) this.#limitLow();
  }

  override add(entry: EntryId): void {
    this.#lastUse[entry] = this.#uses.released(entry);
    this.lists.addAt(entry, this.#lastUse[entry]);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#lastUse[upper] = this.#lastUse[lower];
    super.split(lower, upper);
  }

  victim(): EntryId | undefined {
    return this.lists.first(hir) ?? this.lists.first(lir);
  }

  protected override evicted(victim: EntryId): void {
    if (this.#isFull && this.lists.listOf(victim) === hir && this.#isInStack(this.#lastUse[victim]))
      this.#ghosts.add(this.#key[victim], this.lists.largest, this.#lastUse[victim]);
    this.#isFull = true;
    this.#limitLow();
  }

  /** Whether a use is more recent than the last one of the bottom of S. */
  #isInStack(lastUse: number): boolean {
    const bottom = this.lists.first(lir);
    return bottom === undefined || lastUse > this.#lastUse[bottom];
  }

  /** The least recently used LIR entries become HIR, at the end of the queue, while there are too many. */
  #limitLow(): void {
    const { lists } = this;
    while (this.#isFull && lists.size(lir) > lirShare * lists.largest) {
      const bottom = lists.first(lir);
      if (bottom === undefined) return;
      lists.move(bottom, hir, this.#uses.end());
    }
  }
}

export const lirs: EvictionPlugin = {
  name: "lirs",
  about: "evicts entries whose last two uses are far apart; the others are kept while they are used",
  source: "LIRS: Jiang and Zhang, SIGMETRICS 2002",
  onlyByName: true,
  columns: columnsOfRecency,
  create: (context) => new Lirs(context),
};
