import { grown } from "../../core/grown.ts";

const none = -1;
const firstSlots = 1 << 10;

/**
 * A bounded list of contents that are not cached any more, by content id, with a number for each; the oldest are dropped. Slots
 * are linked in the order of insertion. The slot of a content is found in a table with open addressing, of which at most half is
 * occupied; a removal shifts the entries behind it back, so that no lookup passes over removed ones. All operations are O(1), amortised: the arrays grow with the contents in the list.
 */
export class GhostList {
  count = 0;
  readonly #capacity: number;
  #mask = 0;
  #shift = 0;
  /** Slots by the hash of their content; `none` = empty. */
  #table = new Int32Array(0);
  // By slot.
  #key = new Uint32Array(0);
  #value = new Float64Array(0);
  #next = new Int32Array(0);
  #previous = new Int32Array(0);
  #oldest = none;
  #newest = none;
  /** Slots that are used no more, linked by `#next`. Slots from `#unused` on have never been used. */
  #free = none;
  #unused = 0;

  /** `capacity`: the most contents that the list can have at a time. */
  constructor(capacity: number) {
    this.#capacity = Math.max(1, capacity);
    this.#resize(Math.min(firstSlots, this.#capacity));
  }

  has(key: number): boolean {
    return this.#table[this.#find(key)] !== none;
  }

  /** Adds the content as the newest one and drops the oldest contents, so that there are at most `limit`, which is at least 1. */
  add(key: number, limit: number, value = 0): void {
    const most = Math.max(1, Math.min(Math.floor(limit), this.#capacity));
    if (this.count >= most) {
      this.take(key);
      this.trim(most - 1);
    }
    let at = this.#find(key);
    if (this.#table[at] !== none) {
      this.take(key);
      at = this.#find(key);
    }
    if (this.#free === none && this.#unused === this.#key.length) {
      this.#resize(Math.min(2 * this.#unused, this.#capacity));
      at = this.#find(key);
    }
    const slot = this.#newSlot();
    this.#key[slot] = key;
    this.#value[slot] = value;
    this.#previous[slot] = this.#newest;
    this.#next[slot] = none;
    if (this.#newest === none) this.#oldest = slot;
    else this.#next[this.#newest] = slot;
    this.#newest = slot;
    this.#table[at] = slot;
    this.count++;
  }

  /** Removes the content and returns its number; undefined if it is not in the list. */
  take(key: number): number | undefined {
    const at = this.#find(key);
    const slot = this.#table[at];
    if (slot === none) return undefined;
    this.#removeAt(at);
    const next = this.#next[slot];
    const previous = this.#previous[slot];
    if (previous === none) this.#oldest = next;
    else this.#next[previous] = next;
    if (next === none) this.#newest = previous;
    else this.#previous[next] = previous;
    this.#next[slot] = this.#free;
    this.#free = slot;
    this.count--;
    return this.#value[slot];
  }

  /** Drops the oldest contents, so that there are at most `limit`. */
  trim(limit: number): void {
    while (this.count > Math.max(0, limit)) this.take(this.#key[this.#oldest]);
  }

  #newSlot(): number {
    const slot = this.#free;
    if (slot === none) return this.#unused++;
    this.#free = this.#next[slot];
    return slot;
  }

  /** Grows the arrays, so that there are this many slots, and finds all contents a place in a larger table. */
  #resize(slots: number): void {
    const bits = Math.ceil(Math.log2(2 * slots));
    this.#mask = 2 ** bits - 1;
    this.#shift = 32 - bits;
    this.#key = grown(this.#key, slots);
    this.#value = grown(this.#value, slots);
    this.#next = grown(this.#next, slots);
    this.#previous = grown(this.#previous, slots);
    this.#table = new Int32Array(2 ** bits).fill(none);
    for (let slot = this.#oldest; slot !== none; slot = this.#next[slot])
      this.#table[this.#find(this.#key[slot])] = slot;
  }

  /** Consecutive content ids, as those of one prompt, are beside each other. */
  #home(key: number): number {
    return ((Math.imul(key >>> 3, 0x9e3779b1) >>> this.#shift) & ~7 & this.#mask) | (key & 7 & this.#mask);
  }

  /** The place of the content in the table, or the empty one at which it would be inserted. */
  #find(key: number): number {
    let at = this.#home(key);
    while (this.#table[at] !== none && this.#key[this.#table[at]] !== key) at = (at + 1) & this.#mask;
    return at;
  }

  #removeAt(gap: number): void {
    const table = this.#table;
    const mask = this.#mask;
    let empty = gap;
    for (let at = (gap + 1) & mask; table[at] !== none; at = (at + 1) & mask) {
      const distance = (at - this.#home(this.#key[table[at]])) & mask;
      if (distance < ((at - empty) & mask)) continue;
      table[empty] = table[at];
      empty = at;
    }
    table[empty] = none;
  }
}
