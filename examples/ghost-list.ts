import {
  byScore,
  type EntryId,
  type EvictionContext,
  type EvictionPlugin,
  type EvictionPolicy,
  type RequestView,
} from "kvlab";

/**
 * Two queues, after 2Q (Johnson and Shasha 1994): new content enters a probation queue, which is FIFO regardless of hits.
 * Content that is inserted again soon after its eviction from probation enters the protected queue, which is LRU.
 *
 * A ghost list stores evicted content by `columns.key`, which is equal for equal content, also after an eviction. It is not
 * bounded here: it grows with the distinct contents of a trace.
 */
class GhostList implements EvictionPolicy {
  readonly #key: Uint32Array;
  readonly #probation: EvictionPolicy;
  readonly #protected: EvictionPolicy;
  /** 1: the entry is in the protected queue; 0: in the probation queue. */
  readonly #isProtected: Uint8Array;
  /** Evictable entries in the probation queue, and the number above which they are evicted first. */
  #onProbation = 0;
  readonly #maxOnProbation: number;
  /** The ghost list: by content, its number among the evictions from probation. "Soon" is within half a cache of evictions. */
  readonly #ghosts = new Map<number, number>();
  #evictions = 0;
  readonly #soon: number;

  constructor(context: EvictionContext) {
    const { columns, capacityBlocks = Number.POSITIVE_INFINITY } = context;
    this.#key = columns.key;
    this.#isProtected = new Uint8Array(columns.key.length);
    this.#probation = byScore("createdAt", "releaseOrder").create(context);
    this.#protected = byScore("lastAccess", "releaseOrder").create(context);
    this.#maxOnProbation = Math.floor(capacityBlocks / 4);
    this.#soon = Math.floor(capacityBlocks / 2);
  }

  published(entry: EntryId, request: RequestView): void {
    const evictedAt = this.#ghosts.get(this.#key[entry]);
    this.#isProtected[entry] = evictedAt !== undefined && this.#evictions - evictedAt <= this.#soon ? 1 : 0;
    // The underlying order is notified, too.
    this.#probation.published?.(entry, request);
    this.#protected.published?.(entry, request);
  }

  /** Both parts of a split run are in the queue of the whole. */
  split(lower: EntryId, upper: EntryId): void {
    this.#isProtected[upper] = this.#isProtected[lower];
    this.#orderOf(lower).split?.(lower, upper);
  }

  add(entry: EntryId): void {
    if (this.#isProtected[entry] === 0) this.#onProbation++;
    this.#orderOf(entry).add(entry);
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    this.#orderOf(entry).remove(entry, why);
    if (this.#isProtected[entry] === 1) return;
    this.#onProbation--;
    if (why === "evicted") this.#ghosts.set(this.#key[entry], this.#evictions++);
  }

  victim(now: number): EntryId | undefined {
    const first = this.#probation.victim(now);
    if (this.#onProbation > this.#maxOnProbation) return first;
    return this.#protected.victim(now) ?? first;
  }

  #orderOf(entry: EntryId): EvictionPolicy {
    return this.#isProtected[entry] === 1 ? this.#protected : this.#probation;
  }
}

const ghostList: EvictionPlugin = {
  name: "ghost-list",
  about: "two queues: content that is inserted again soon after its eviction is LRU, other content is FIFO",
  source: "2Q: Johnson and Shasha 1994",
  columns: ["createdAt", "lastAccess", "releaseOrder"],
  create: (context) => new GhostList(context),
};

export default ghostList;
