import { grown } from "../core/grown.ts";
import { wideText } from "./json-lines.ts";

const directIds = 1 << 24;

/**
 * Numbers ids of up to 64 bits from 0, by first appearance. Ids are given as `high · 10^9 + low`. Small ones, which
 * most traces have, are looked up directly; the others in a hash table with open addressing, never more
 * than half full.
 */
export class DenseIds {
  /** Number of distinct ids so far. */
  count = 0;
  /** Number + 1 of each id below `directIds`; 0 = none. */
  #direct = new Uint32Array(1 << 12);
  /** Number + 1 of the other ids, which `#high` and `#low` have by number. */
  #slots = new Uint32Array(1 << 12);
  #slotsUsed = 0;
  #high = new Float64Array(1 << 11);
  #low = new Uint32Array(1 << 11);

  /** The id's number; `count` before the call if the id is new. */
  numberOf(high: number, low: number): number {
    if (high !== 0 || low >= directIds) return this.#hashed(high, low);
    if (low >= this.#direct.length) this.#growDirect(low);
    const number = this.#direct[low];
    if (number !== 0) return number - 1;
    this.#direct[low] = this.count + 1;
    return this.count++;
  }

  /** The id that has this number, in decimal; slow, for messages. */
  textOf(number: number): string {
    const low = this.#direct.indexOf(number + 1);
    if (low >= 0) return String(low);
    return wideText(this.#high[number], this.#low[number]);
  }

  #hashed(high: number, low: number): number {
    const slot = this.#slotOf(high, low);
    const found = this.#slots[slot];
    if (found !== 0) return found - 1;
    const number = this.count++;
    if (number >= this.#low.length) this.#growIds(number);
    this.#high[number] = high;
    this.#low[number] = low;
    this.#slots[slot] = number + 1;
    if (++this.#slotsUsed * 2 > this.#slots.length) this.#rehash();
    return number;
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

  #growIds(number: number): void {
    const high = new Float64Array(2 * number);
    high.set(this.#high);
    this.#high = high;
    const low = new Uint32Array(2 * number);
    low.set(this.#low);
    this.#low = low;
  }

  #growDirect(low: number): void {
    let length = this.#direct.length;
    while (length <= low) length *= 2;
    this.#direct = grown(this.#direct, length);
  }
}
