import { InvariantError } from "../../core/errors.ts";
import type { EntryId } from "../../core/plugins/index.ts";
import { EntryHeap, noPlaces } from "./entry-heap.ts";

const none = -1;

// The state of an entry: the number of a list, and flags.
const noList = 0xffff;
const stored = 1 << 16;
const evictable = 1 << 17;
const linked = 1 << 18;
const inHeap = 1 << 19;

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
  /** By entry: the list of which it is a member, or was one last; and the flags below. */
  readonly #state: Int32Array;
  /** By entry, at twice its number: the next entry of the list in which it is linked, and the previous one. */
  readonly #links: Int32Array;
  // By list.
  readonly #head: Int32Array;
  readonly #tail: Int32Array;
  readonly #size: Int32Array;
  readonly #heaps: (EntryHeap | undefined)[];
  readonly #heapPlace: Int32Array;

  constructor(entryCount: number, listCount: number) {
    this.place = new Float64Array(entryCount);
    this.#state = new Int32Array(entryCount).fill(noList);
    this.#links = new Int32Array(2 * entryCount);
    this.#head = new Int32Array(listCount).fill(none);
    this.#tail = new Int32Array(listCount).fill(none);
    this.#size = new Int32Array(listCount);
    this.#heaps = new Array<EntryHeap | undefined>(listCount).fill(undefined);
    this.#heapPlace = noPlaces(entryCount);
  }

  /** The list of a stored entry, or the last one of an entry that was removed. */
  listOf(entry: EntryId): number {
    return this.#state[entry] & noList;
  }

  /** Members of the list, referenced ones included. */
  size(list: number): number {
    return this.#size[list];
  }

  isEvictable(entry: EntryId): boolean {
    return (this.#state[entry] & evictable) !== 0;
  }

  /** A new entry is a member of the list; its number may be that of an earlier entry. It is not evictable yet. */
  insert(entry: EntryId, list: number, place: number): void {
    this.remove(entry);
    this.#join(entry, list, 0);
    this.place[entry] = place;
  }

  /** The entry is a member of this list at this place from now on. */
  move(entry: EntryId, list: number, place: number): void {
    const state = this.#state[entry];
    this.#leave(entry, state);
    this.#join(entry, list, state & evictable);
    this.place[entry] = place;
    if ((state & evictable) !== 0) this.#enqueue(entry);
  }

  /** The entry is evictable. It returns to its last list if it was removed: its tail was evicted or dropped. */
  add(entry: EntryId): void {
    const state = this.#state[entry];
    if ((state & stored) === 0) this.#join(entry, state & noList, evictable);
    else this.#state[entry] = state | evictable;
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
    this.#state[entry] &= ~evictable;
  }

  /** The entry is not stored any more. */
  remove(entry: EntryId): void {
    this.#leave(entry, this.#state[entry]);
  }

  /** The evictable member with the smallest place. */
  first(list: number): EntryId | undefined {
    let head = this.#head[list];
    while (head !== none && (this.#state[head] & evictable) === 0) {
      this.#unlink(head);
      head = this.#head[list];
    }
    const top = this.#heaps[list]?.first;
    if (head === none) return top;
    return top !== undefined && this.#precedes(top, head) ? top : head;
  }

  #join(entry: EntryId, list: number, flags: number): void {
    if (list === noList) throw new InvariantError(`entry ${entry} was never inserted`);
    this.#state[entry] = list | stored | flags;
    this.#size[list]++;
    if (++this.total > this.largest) this.largest = this.total;
  }

  /** The entry is a member of no list, and not evictable. */
  #leave(entry: EntryId, state: number): void {
    if ((state & stored) === 0) return;
    this.#dequeue(entry);
    this.#unlink(entry);
    const list = state & noList;
    this.#state[entry] = list;
    this.#size[list]--;
    this.total--;
  }

  #enqueue(entry: EntryId): void {
    const state = this.#state[entry];
    if ((state & linked) !== 0) return;
    const list = state & noList;
    const place = this.place[entry];
    const tail = this.#tail[list];
    if (tail === none || this.place[tail] < place) this.#link(entry, list, tail, none);
    else if (place < this.place[this.#head[list]]) this.#link(entry, list, none, this.#head[list]);
    else this.#addToHeap(entry, list);
  }

  #addToHeap(entry: EntryId, list: number): void {
    this.#state[entry] |= inHeap;
    this.#heaps[list] ??= new EntryHeap(this.place.length, (a, b) => this.#precedes(a, b), this.#heapPlace);
    this.#heaps[list].add(entry);
  }

  #precedes(a: EntryId, b: EntryId): boolean {
    const difference = this.place[a] - this.place[b];
    return difference < 0 || (difference === 0 && a < b);
  }

  #dequeue(entry: EntryId): void {
    const state = this.#state[entry];
    if ((state & inHeap) === 0) return;
    this.#state[entry] = state & ~inHeap;
    this.#heaps[state & noList]!.remove(entry);
  }

  #link(entry: EntryId, list: number, previous: EntryId, next: EntryId): void {
    const links = this.#links;
    this.#state[entry] |= linked;
    links[2 * entry] = next;
    links[2 * entry + 1] = previous;
    if (previous === none) this.#head[list] = entry;
    else links[2 * previous] = entry;
    if (next === none) this.#tail[list] = entry;
    else links[2 * next + 1] = entry;
  }

  #unlink(entry: EntryId): void {
    const state = this.#state[entry];
    if ((state & linked) === 0) return;
    this.#state[entry] = state & ~linked;
    const list = state & noList;
    const links = this.#links;
    const next = links[2 * entry];
    const previous = links[2 * entry + 1];
    if (previous === none) this.#head[list] = next;
    else links[2 * previous] = next;
    if (next === none) this.#tail[list] = previous;
    else links[2 * next + 1] = previous;
  }
}
