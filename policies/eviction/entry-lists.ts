import { InvariantError } from "../../core/errors.ts";
import type { EntryId } from "../../core/plugins/index.ts";
import { EntryHeap, noPlaces } from "./entry-heap.ts";

const none = -1;

/**
 * Lists of entries in the order of a number per entry, its *place*. A stored entry is a member of one list, also while it is not
 * evictable; `first` is the evictable member with the smallest place. Two structures per list contain the evictable members:
 *
 *   linked   a doubly linked list in ascending order of place. An entry is linked if its place is above or below those of
 *            all linked entries: O(1). An entry that stops being evictable stays linked until it is the first one, so that
 *            it returns to its position in O(1) if it is evictable again before that
 *   heap     all others: an entry that returns after those behind it were evicted, a tree node that became a leaf; O(log n)
 *
 * Each entry that `first` unlinks was linked once, so that all operations are O(log n), amortised.
 */
export class EntryLists {
  /** By entry: its place; read-only for policies. */
  readonly place: Float64Array;
  /** Members of all lists. */
  total = 0;
  /** The largest number of members so far: the size of the full cache in entries. */
  largest = 0;
  /** By entry: the list of which it is a member; `none` = not stored. */
  readonly #list: Int16Array;
  /** By entry: its last list, also after it was removed. */
  readonly #lastList: Int16Array;
  readonly #isEvictable: Uint8Array;
  /** By entry: the list in which it is linked; `none` = in no list. */
  readonly #linkedIn: Int16Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  // By list.
  readonly #head: Int32Array;
  readonly #tail: Int32Array;
  readonly #size: Int32Array;
  readonly #heaps: (EntryHeap | undefined)[];
  readonly #heapPlace: Int32Array;

  constructor(entryCount: number, listCount: number) {
    this.place = new Float64Array(entryCount);
    this.#list = new Int16Array(entryCount).fill(none);
    this.#lastList = new Int16Array(entryCount).fill(none);
    this.#isEvictable = new Uint8Array(entryCount);
    this.#linkedIn = new Int16Array(entryCount).fill(none);
    this.#next = new Int32Array(entryCount).fill(none);
    this.#previous = new Int32Array(entryCount).fill(none);
    this.#head = new Int32Array(listCount).fill(none);
    this.#tail = new Int32Array(listCount).fill(none);
    this.#size = new Int32Array(listCount);
    this.#heaps = new Array<EntryHeap | undefined>(listCount).fill(undefined);
    this.#heapPlace = noPlaces(entryCount);
  }

  /** The list of a stored entry, or the last one of an entry that was removed. */
  listOf(entry: EntryId): number {
    return this.#lastList[entry];
  }

  /** Members of the list, referenced ones included. */
  size(list: number): number {
    return this.#size[list];
  }

  isEvictable(entry: EntryId): boolean {
    return this.#isEvictable[entry] === 1;
  }

  /** A new entry is a member of the list; its number may be that of an earlier entry. It is not evictable yet. */
  insert(entry: EntryId, list: number, place: number): void {
    this.remove(entry);
    this.#join(entry, list);
    this.place[entry] = place;
  }

  /** The entry is a member of this list at this place from now on. */
  move(entry: EntryId, list: number, place: number): void {
    this.#dequeue(entry);
    this.#unlink(entry);
    this.#leave(entry);
    this.#join(entry, list);
    this.place[entry] = place;
    if (this.#isEvictable[entry] === 1) this.#enqueue(entry);
  }

  /** The entry is evictable. It returns to its last list if it was removed: its tail was evicted or dropped. */
  add(entry: EntryId): void {
    if (this.#list[entry] === none) this.#join(entry, this.#lastList[entry]);
    this.#isEvictable[entry] = 1;
    this.#enqueue(entry);
  }

  /** The entry is evictable, at this place from now on. */
  addAt(entry: EntryId, place: number): void {
    this.#unlink(entry);
    this.place[entry] = place;
    this.add(entry);
  }

  /** The entry is not evictable; it stays a member of its list. */
  block(entry: EntryId): void {
    this.#dequeue(entry);
    this.#isEvictable[entry] = 0;
  }

  /** The entry is not stored any more. */
  remove(entry: EntryId): void {
    this.#dequeue(entry);
    this.#unlink(entry);
    this.#leave(entry);
    this.#isEvictable[entry] = 0;
  }

  /** The evictable member with the smallest place. */
  first(list: number): EntryId | undefined {
    let head = this.#head[list];
    while (head !== none && this.#isEvictable[head] === 0) {
      this.#unlink(head);
      head = this.#head[list];
    }
    const top = this.#heaps[list]?.first;
    if (head === none) return top;
    return top !== undefined && this.#precedes(top, head) ? top : head;
  }

  #join(entry: EntryId, list: number): void {
    if (list < 0) throw new InvariantError(`entry ${entry} was never inserted`);
    this.#list[entry] = this.#lastList[entry] = list;
    this.#size[list]++;
    if (++this.total > this.largest) this.largest = this.total;
  }

  #leave(entry: EntryId): void {
    const list = this.#list[entry];
    if (list === none) return;
    this.#list[entry] = none;
    this.#size[list]--;
    this.total--;
  }

  #enqueue(entry: EntryId): void {
    const list = this.#list[entry];
    if (this.#linkedIn[entry] === list) return;
    const place = this.place[entry];
    const tail = this.#tail[list];
    if (tail === none || this.place[tail] < place) this.#link(entry, list, tail, none);
    else if (place < this.place[this.#head[list]]) this.#link(entry, list, none, this.#head[list]);
    else this.#heap(list).add(entry);
  }

  #heap(list: number): EntryHeap {
    let heap = this.#heaps[list];
    if (heap === undefined) {
      heap = new EntryHeap(this.place.length, (a, b) => this.#precedes(a, b), this.#heapPlace);
      this.#heaps[list] = heap;
    }
    return heap;
  }

  #precedes(a: EntryId, b: EntryId): boolean {
    const difference = this.place[a] - this.place[b];
    return difference < 0 || (difference === 0 && a < b);
  }

  #dequeue(entry: EntryId): void {
    if (this.#heapPlace[entry] !== none) this.#heaps[this.#list[entry]]!.remove(entry);
  }

  #link(entry: EntryId, list: number, previous: EntryId, next: EntryId): void {
    this.#linkedIn[entry] = list;
    this.#previous[entry] = previous;
    this.#next[entry] = next;
    if (previous === none) this.#head[list] = entry;
    else this.#next[previous] = entry;
    if (next === none) this.#tail[list] = entry;
    else this.#previous[next] = entry;
  }

  #unlink(entry: EntryId): void {
    const list = this.#linkedIn[entry];
    if (list === none) return;
    this.#linkedIn[entry] = none;
    const next = this.#next[entry];
    const previous = this.#previous[entry];
    if (previous === none) this.#head[list] = next;
    else this.#next[previous] = next;
    if (next === none) this.#tail[list] = previous;
    else this.#previous[next] = previous;
  }
}
