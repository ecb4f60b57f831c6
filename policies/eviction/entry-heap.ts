import { grown } from "../../core/grown.ts";
import type { EntryId } from "../../core/plugins/index.ts";

const none = -1;

/** The shared array of positions for heaps of `entryCount` entries; no entry is in a heap. */
export const noPlaces = (entryCount: number): Int32Array => new Int32Array(entryCount).fill(none);

/**
 * A binary heap of entries that supports removal of any entry in O(log n); `before` must be a total order. Heaps may share
 * one array `place` if an entry is in at most one of them at a time.
 */
export class EntryHeap {
  count = 0;
  readonly #before: (a: EntryId, b: EntryId) => boolean;
  #heap: Int32Array = new Int32Array(64);
  /** By entry: its position in its heap; `none` = not in a heap. */
  readonly #place: Int32Array;

  constructor(entryCount: number, before: (a: EntryId, b: EntryId) => boolean, place = noPlaces(entryCount)) {
    this.#before = before;
    this.#place = place;
  }

  get first(): EntryId | undefined {
    return this.count === 0 ? undefined : this.#heap[0];
  }

  has(entry: EntryId): boolean {
    return this.#place[entry] !== none;
  }

  /** A copy of the entries, in no order. */
  entries(): Int32Array {
    return this.#heap.slice(0, this.count);
  }

  add(entry: EntryId): void {
    if (this.count === this.#heap.length) this.#heap = grown(this.#heap, 2 * this.count);
    this.#up(this.count++, entry);
  }

  /** The values that `before` compares must not change while the entry is in the heap. */
  remove(entry: EntryId): void {
    const gap = this.#place[entry];
    this.#place[entry] = none;
    const last = --this.count;
    if (gap === last) return;
    const moved = this.#heap[last];
    if (gap > 0 && this.#before(moved, this.#heap[(gap - 1) >> 1])) this.#up(gap, moved);
    else this.#down(gap, moved);
  }

  #up(from: number, entry: EntryId): void {
    const heap = this.#heap;
    const place = this.#place;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above];
      if (!this.#before(entry, other)) break;
      heap[at] = other;
      place[other] = at;
      at = above;
    }
    heap[at] = entry;
    place[entry] = at;
  }

  #down(from: number, entry: EntryId): void {
    const heap = this.#heap;
    const place = this.#place;
    const { count } = this;
    let at = from;
    for (let child = 2 * at + 1; child < count; child = 2 * at + 1) {
      if (child + 1 < count && this.#before(heap[child + 1], heap[child])) child++;
      const other = heap[child];
      if (this.#before(entry, other)) break;
      heap[at] = other;
      place[other] = at;
      at = child;
    }
    heap[at] = entry;
    place[entry] = at;
  }
}
