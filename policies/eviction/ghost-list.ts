const none = -1;

/**
 * A bounded list of contents that are not cached any more, by content id, with a number for each; the oldest are dropped. Slots
 * are linked in the order of insertion. The slot of a content is found in a table with open addressing, of which at most half is
 * occupied; a removal shifts the entries behind it back, so that no lookup passes over removed ones. All operations are O(1).
 */
export class GhostList {
  count = 0;
  readonly #mask: number;
  readonly #shift: number;
  /** Slots by the hash of their content; `none` = empty. */
  readonly #table: Int32Array;
  // By slot.
  readonly #key: Uint32Array;
  readonly #value: Float64Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #oldest = none;
  #newest = none;
  /** Unused slots, linked by `#next`. */
  #free = 0;

  /** `capacity`: the most contents that the list can have at a time. */
  constructor(capacity: number) {
    const slots = Math.max(1, capacity);
    const bits = Math.ceil(Math.log2(2 * slots));
    this.#mask = 2 ** bits - 1;
    this.#shift = 32 - bits;
    this.#table = new Int32Array(2 ** bits).fill(none);
    this.#key = new Uint32Array(slots);
    this.#value = new Float64Array(slots);
    this.#next = new Int32Array(slots).map((_, slot) => (slot + 1 < slots ? slot + 1 : none));
    this.#previous = new Int32Array(slots);
  }

  has(key: number): boolean {
    return this.#table[this.#find(key)] !== none;
  }

  /** Adds the content as the newest one and drops the oldest contents, so that there are at most `limit`, which is at least 1. */
  add(key: number, limit: number, value = 0): void {
    const most = Math.max(1, Math.min(Math.floor(limit), this.#key.length));
    if (this.count >= most) {
      this.take(key);
      this.trim(most - 1);
    }
    let at = this.#find(key);
    if (this.#table[at] !== none) {
      this.take(key);
      at = this.#find(key);
    }
    const slot = this.#free;
    this.#free = this.#next[slot];
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
