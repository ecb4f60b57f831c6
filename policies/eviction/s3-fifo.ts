import type { EntryId, EvictionContext, EvictionPlugin } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { GhostList } from "./ghost-list.ts";
import { InsertionPlaces } from "./places.ts";

/** Lists: entries of the small queue with at most one hit and with more, and entries of the main queue by their hits, 0 to 3. */
const smallOnce = 0;
const smallMore = 1;
const main = 2;
const mostHits = 3;
const listCount = main + mostHits + 1;

/** Share of the small queue, and of ghosts, in the entries of the cache. */
const smallShare = 0.1;
const ghostShare = 0.9;

/**
 * S3-FIFO: new entries are in a small queue, a tenth of the cache. At its front, entries with more than one hit move to the main
 * queue, others are evicted; their contents are ghosts, and a ghost that is inserted again is inserted into the main queue. At
 * the front of the main queue, an entry with hits is inserted again with one hit less, others are evicted. Both queues are in
 * the order of insertion (Yang, Zhang, Qiu, Yue, Rashmi: FIFO Queues are All You Need for Cache Eviction, SOSP 2023).
 *
 * Entries are in lists by their hits, so that the victim is found without a search; each entry that is moved was hit before.
 * Differences: the small queue is evicted from while it has at least a tenth of the entries that are stored, in entries and not in
 * bytes. A ghost is found when its content is published again, after the evictions for it. A move into a full main queue does
 * not evict from it at once: the next eviction does. Referenced entries and inner nodes of trees keep their place.
 */
class S3Fifo extends ByLists {
  readonly #key: Uint32Array;
  readonly #places: InsertionPlaces;
  readonly #ghosts: GhostList;
  readonly #hits: Uint8Array;

  constructor(context: EvictionContext) {
    super(context, listCount);
    this.#key = context.columns.key;
    this.#places = new InsertionPlaces(context);
    this.#ghosts = new GhostList(Math.ceil(ghostShare * this.#key.length));
    this.#hits = new Uint8Array(this.#key.length);
  }

  published(entry: EntryId): void {
    this.#hits[entry] = 0;
    const list = this.#ghosts.take(this.#key[entry]) === undefined ? smallOnce : main;
    this.lists.insert(entry, list, this.#places.inserted(entry));
  }

  hit(entry: EntryId): void {
    if (this.#hits[entry] === mostHits) return;
    const hits = ++this.#hits[entry];
    const list = this.#isSmall(entry) ? (hits > 1 ? smallMore : smallOnce) : main + hits;
    if (this.lists.listOf(entry) !== list) this.lists.move(entry, list, this.lists.place[entry]);
  }

  override split(lower: EntryId, upper: EntryId): void {
    this.#hits[upper] = this.#hits[lower];
    super.split(lower, upper);
  }

  victim(): EntryId | undefined {
    const { lists } = this;
    const isSmallFull = this.#isSmallFull;
    const fromSmall = isSmallFull ? lists.first(smallOnce) : undefined;
    if (fromSmall !== undefined) return fromSmall;
    // If the small queue is full, its entries with more hits move to the end of the main queue, without hits.
    const unused = lists.first(main) ?? (isSmallFull ? lists.first(smallMore) : undefined);
    if (unused !== undefined) return unused;
    for (let hits = 1; hits <= mostHits; hits++) {
      const entry = lists.first(main + hits);
      if (entry !== undefined) return entry;
    }
    return lists.first(smallOnce) ?? lists.first(smallMore);
  }

  protected override evicted(victim: EntryId): void {
    const { lists } = this;
    if (this.#isSmallFull || this.#isSmall(victim)) {
      const end = lists.listOf(victim) === smallOnce ? lists.place[victim] : Number.POSITIVE_INFINITY;
      this.#moveToMain(end);
    }
    if (this.#isSmall(victim)) this.#ghosts.add(this.#key[victim], ghostShare * lists.largest);
    else this.#passInMain(victim);
  }

  get #isSmallFull(): boolean {
    return this.lists.size(smallOnce) + this.lists.size(smallMore) >= smallShare * this.lists.total;
  }

  #isSmall(entry: EntryId): boolean {
    return this.lists.listOf(entry) < main;
  }

  /** Entries of the small queue with more than one hit, before this place, move to the end of the main queue. */
  #moveToMain(end: number): void {
    const { lists } = this;
    for (let entry = lists.first(smallMore); entry !== undefined; entry = lists.first(smallMore)) {
      if (lists.place[entry] >= end) break;
      this.#hits[entry] = 0;
      lists.move(entry, main, this.#places.end());
    }
  }

  /** Entries of the main queue with hits, before the victim, move to its end with one hit less, until the victim has none. */
  #passInMain(victim: EntryId): void {
    const { lists } = this;
    for (;;) {
      const isLastTurn = lists.listOf(victim) === main;
      const end = isLastTurn ? lists.place[victim] : this.#places.end();
      for (let entry = this.#firstHitInMain(); entry !== undefined; entry = this.#firstHitInMain()) {
        if (lists.place[entry] >= end) break;
        this.#hits[entry]--;
        lists.move(entry, main + this.#hits[entry], this.#places.end());
      }
      if (isLastTurn) return;
    }
  }

  /** The evictable entry of the main queue with hits that was inserted first. */
  #firstHitInMain(): EntryId | undefined {
    const { place } = this.lists;
    let first: EntryId | undefined;
    for (let list = main + 1; list < listCount; list++) {
      const entry = this.lists.first(list);
      if (entry !== undefined && (first === undefined || place[entry] < place[first])) first = entry;
    }
    return first;
  }
}

export const s3Fifo: EvictionPlugin = {
  name: "s3-fifo",
  about: "a small queue for new entries, a main queue for those with hits, and ghosts of evicted contents",
  source: "S3-FIFO: Yang et al., SOSP 2023",
  onlyByName: true,
  columns: ["createdAt"],
  create: (context) => new S3Fifo(context),
};
