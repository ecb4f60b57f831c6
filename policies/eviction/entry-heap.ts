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

  #up(at: number, entry: EntryId): void {
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#before(entry, this.#heap[above])) break;
      this.#put(at, this.#heap[above]);
      at = above;
    }
    this.#put(at, entry);
  }

  #down(at: number, entry: EntryId): void {
    const heap = this.#heap;
    for (let child = 2 * at + 1; child < this.count; child = 2 * at + 1) {
      if (child + 1 < this.count && this.#before(heap[child + 1], heap[child])) child++;
      if (this.#before(entry, heap[child])) break;
      this.#put(at, heap[child]);
      at = child;
    }
    this.#put(at, entry);
  }

  #put(at: number, entry: EntryId): void {
    this.#heap[at] = entry;
    this.#place[entry] = at;
  }
}
