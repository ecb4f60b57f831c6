import { wideText } from "./json-lines.ts";

const directIds = 1 << 22;

/**
 * Numbers ids of up to 64 bits from 0, by first appearance. Ids are given as `high · 10^9 + low`. Small ones, which
 * most traces have, are looked up directly; the others in a hash table with open addressing, at most half full.
 */
export class DenseIds {
  /** Ids numbered so far. */
  count = 0;
  /** Number + 1 of each id below `directIds`; 0 = none. */
  #direct = new Uint32Array(1 << 12);
  #slots = new Uint32Array(1 << 12);
  #slotHigh = new Float64Array(1 << 12);
  #slotLow = new Uint32Array(1 << 12);
  #slotsUsed = 0;

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
    const slot = this.#slots.indexOf(number + 1);
    return wideText(this.#slotHigh[slot], this.#slotLow[slot]);
  }

  #hashed(high: number, low: number): number {
    const slot = this.#slotOf(high, low);
    const number = this.#slots[slot];
    if (number !== 0) return number - 1;
    this.#fill(slot, high, low, this.count + 1);
    if (++this.#slotsUsed * 2 > this.#slots.length) this.#rehash();
    return this.count++;
  }

  /** The slot that holds the id, or the empty one where it belongs. */
  #slotOf(high: number, low: number): number {
    const mask = this.#slots.length - 1;
    let hash = Math.imul((high | 0) ^ Math.imul(low, 0x9e3779b1), 0x85ebca77);
    hash ^= hash >>> 15;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask)
      if (this.#slots[slot] === 0 || (this.#slotLow[slot] === low && this.#slotHigh[slot] === high)) return slot;
  }

  #fill(slot: number, high: number, low: number, numberPlusOne: number): void {
    this.#slots[slot] = numberPlusOne;
    this.#slotHigh[slot] = high;
    this.#slotLow[slot] = low;
  }

  #rehash(): void {
    const slots = this.#slots;
    const highs = this.#slotHigh;
    const lows = this.#slotLow;
    this.#slots = new Uint32Array(slots.length * 2);
    this.#slotHigh = new Float64Array(slots.length * 2);
    this.#slotLow = new Uint32Array(slots.length * 2);
    for (let i = 0; i < slots.length; i++)
      if (slots[i] !== 0) this.#fill(this.#slotOf(highs[i], lows[i]), highs[i], lows[i], slots[i]);
  }

  #growDirect(low: number): void {
    let length = this.#direct.length;
    while (length <= low) length *= 2;
    const larger = new Uint32Array(length);
    larger.set(this.#direct);
    this.#direct = larger;
  }
}
