import { grown } from "../core/grown.ts";
import { wideText } from "./json-lines.ts";

const directIds = 1 << 24;

/**
 * Numbers ids of up to 64 bits from 0, by first appearance. Ids are given as `high · 10^9 + low`. As long as the ids are numbered
 * in this way already, no table is needed. After the first one that is not, small ids are looked up directly; the others
 * in a hash table with open addressing, never more than half full.
 */
export class DenseIds {
  /** Number of distinct ids so far. */
  count = 0;
  /** Ids below this one are their own numbers. */
  #own = 0;
  /** Number + 1 of each id below `directIds`; 0 = none. */
  #direct = new Uint32Array(1 << 12);
  /** Place + 1 of the other ids in the following columns: the id and its number. */
  #slots = new Uint32Array(1 << 12);
  #hashedCount = 0;
  #high = new Float64Array(1 << 11);
  #low = new Uint32Array(1 << 11);
  #number = new Uint32Array(1 << 11);

  /** The id's number; `count` before the call if the id is new. */
  numberOf(high: number, low: number): number {
    if (high === 0 && low <= this.#own) {
      if (low < this.#own) return low;
      if (this.#own === this.count) {
        this.#own++;
        return this.count++;
      }
    }
    if (high !== 0 || low >= directIds) return this.#hashed(high, low);
    if (low >= this.#direct.length) this.#growDirect(low);
    const number = this.#direct[low];
    if (number !== 0) return number - 1;
    this.#direct[low] = this.count + 1;
    return this.count++;
  }

  /** The id that has this number, in decimal; slow, for messages. */
  textOf(number: number): string {
    if (number < this.#own) return String(number);
    const low = this.#direct.indexOf(number + 1);
    if (low >= 0) return String(low);
    const place = this.#number.subarray(0, this.#hashedCount).indexOf(number);
    return wideText(this.#high[place], this.#low[place]);
  }

  #hashed(high: number, low: number): number {
    const slot = this.#slotOf(high, low);
    const found = this.#slots[slot];
    if (found !== 0) return this.#number[found - 1];
    const place = this.#hashedCount++;
    if (place === this.#low.length) this.#growColumns();
    this.#high[place] = high;
    this.#low[place] = low;
    this.#number[place] = this.count;
    this.#slots[slot] = place + 1;
    if (this.#hashedCount * 2 > this.#slots.length) this.#rehash();
    return this.count++;
  }

  /** The slot of the id, or the empty slot for it. */
  #slotOf(high: number, low: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    // Sixteen consecutive ids get consecutive slots, so that ascending ids stay in the CPU cache.
    let hash = Math.imul(Math.imul(low >>> 4, 0x9e3779b1) ^ high, 0x85ebca77);
    hash ^= hash >>> 15;
    for (let slot = ((hash << 4) | (low & 15)) & mask; ; slot = (slot + 1) & mask) {
      const found = slots[slot];
      if (found === 0 || (this.#low[found - 1] === low && this.#high[found - 1] === high)) return slot;
    }
  }

  #rehash(): void {
    const old = this.#slots;
    this.#slots = new Uint32Array(old.length * 4);
    for (const found of old)
      if (found !== 0) this.#slots[this.#slotOf(this.#high[found - 1], this.#low[found - 1])] = found;
  }

  #growColumns(): void {
    const length = 2 * this.#low.length;
    this.#high = grown(this.#high, length);
    this.#low = grown(this.#low, length);
    this.#number = grown(this.#number, length);
  }

  #growDirect(low: number): void {
    let length = this.#direct.length;
    while (length <= low) length *= 2;
    this.#direct = grown(this.#direct, length);
  }
}
