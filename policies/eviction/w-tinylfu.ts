import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import { ByLists } from "./by-lists.ts";
import { FrequencySketch } from "./frequency-sketch.ts";
import { columnsOfRecency, RecencyPlaces } from "./places.ts";

/** Lists, each in LRU order: new entries, and the two segments of the main cache. */
const newest = 0;
const probation = 1;
const kept = 2;

/** Shares of the window in the entries of the cache, and of the protected segment in those of the main cache. */
const windowShare = 0.01;
const keptShare = 0.8;

const noKey = -1;

/**
 * W-TinyLFU: new entries are in an LRU window, 1 % of the cache. The least recently used entry of a full window competes with the
 * next victim of the main cache, and the one that was requested less often, by a sketch of frequencies, is evicted. The main cache is a
 * segmented LRU: an entry with a hit moves from the probationary to the protected segment, 80 % of the main cache, whose least
 * recently used entry returns to the other one (Einziger, Friedman, Manes: TinyLFU, ACM ToS 2017).
 *
 * Differences: this is an order of eviction, and all blocks are stored. An admission evicts before its blocks are published, so the
 * window is larger than its share until the next evictions. Of equally frequent entries that of the window is evicted. Until the first
 * eviction, entries leave the window without competing, and the protected segment has no limit. An entry of several blocks has the
 * frequency of its last one.
 */
class WindowTinyLfu extends ByLists {
  readonly #key: Uint32Array;
  readonly #uses: RecencyPlaces;
  readonly #sketch: FrequencySketch;
  /** Content of the latest entry with which the window competed, and its frequency, until the next request. */
  #rivalKey = noKey;
  #rivalFrequency = 0;
  #wasFull = false;

  constructor(context: EvictionContext) {
    super(context, 3);
    this.#key = context.columns.key;
    this.#uses = new RecencyPlaces(context);
    this.#sketch = new FrequencySketch(context.capacityBlocks ?? 0);
  }

  begin({ keys, keyStart, promptBlocks }: RequestView): void {
    this.#rivalKey = noKey;
    for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#sketch.add(keys[at]);
  }

  published(entry: EntryId): void {
    this.lists.insert(entry, newest, this.#uses.end());
  }

  hit(entry: EntryId): void {
    const { lists } = this;
    if (lists.listOf(entry) !== probation) return;
    lists.move(entry, kept, this.#uses.end());
    while (this.#wasFull && lists.size(kept) > keptShare * (1 - windowShare) * lists.largest) {
      const first = lists.first(kept);
      if (first === undefined) return;
      lists.move(first, probation, this.#uses.end());
    }
  }

  override add(entry: EntryId): void {
    this.lists.addAt(entry, this.#uses.released(entry));
    if (this.#wasFull) return;
    while (this.lists.size(newest) > this.#windowSize) {
      const first = this.lists.first(newest);
      if (first === undefined) return;
      this.#enterMain(first);
    }
  }

  victim(): EntryId | undefined {
    const { lists } = this;
    const candidate = this.#candidate;
    const rival = lists.first(probation) ?? lists.first(kept);
    if (candidate === undefined) return rival ?? lists.first(newest);
    if (rival === undefined) return candidate;
    if (this.#key[rival] !== this.#rivalKey) {
      this.#rivalKey = this.#key[rival];
      this.#rivalFrequency = this.#frequency(rival);
    }
    return this.#frequency(candidate) > this.#rivalFrequency ? rival : candidate;
  }

  protected override evicted(victim: EntryId): void {
    this.#wasFull = true;
    const winner = this.lists.listOf(victim) === newest ? undefined : this.#candidate;
    if (winner !== undefined) this.#enterMain(winner);
  }

  /** The entry that leaves the window for a new one, if the window has reached its share. */
  get #candidate(): EntryId | undefined {
    return this.lists.size(newest) >= this.#windowSize ? this.lists.first(newest) : undefined;
  }

  get #windowSize(): number {
    return Math.max(1, windowShare * this.lists.largest);
  }

  #enterMain(entry: EntryId): void {
    this.lists.move(entry, probation, this.#uses.end());
  }

  #frequency(entry: EntryId): number {
    return this.#sketch.estimate(this.#key[entry]);
  }
}

export const wTinylfu: EvictionPlugin = {
  name: "w-tinylfu",
  about:
    "a small LRU window for new entries, and a segmented LRU that an entry enters if it is more frequent than the next victim",
  source: "W-TinyLFU: Einziger, Friedman, Manes (ACM ToS 2017)",
  onlyByName: true,
  columns: columnsOfRecency,
  create: (context) => new WindowTinyLfu(context),
};
