import { grown } from "../core/grown.ts";

/** The predecessor of an id that begins a prompt. */
export const noPredecessor = 0xffff_ffff;

/**
 * The predecessor of each dense id: the id before it in every prompt. Nearly all ids follow the id before them, which takes a
 * bit; the others are in an array, in the order of their ids:
 *
 *   id           0  1  2  3  4  5      predecessors  –  0  1  2  1  4
 *   follows      0  1  1  1  0  1      others        –  1
 */
export class Predecessors {
  /** Number of ids so far. */
  count = 0;
  /** A bit for each id: 1 if its predecessor is the id before it. */
  #follows = new Uint32Array(1 << 7);
  /** By word of `#follows`: number of ids before it that are in `#others`. */
  #othersBefore = new Uint32Array(1 << 7);
  #others = new Uint32Array(1 << 7);
  #otherCount = 0;

  /** Adds the next id. */
  add(predecessor: number): void {
    const id = this.count++;
    const word = id >>> 5;
    if (word === this.#follows.length) {
      this.#follows = grown(this.#follows, 2 * word);
      this.#othersBefore = grown(this.#othersBefore, 2 * word);
    }
    if ((id & 31) === 0) this.#othersBefore[word] = this.#otherCount;
    if (id > 0 && predecessor === id - 1) {
      this.#follows[word] |= 1 << (id & 31);
      return;
    }
    if (this.#otherCount === this.#others.length) this.#others = grown(this.#others, 2 * this.#otherCount);
    this.#others[this.#otherCount++] = predecessor;
  }

  of(id: number): number {
    const word = id >>> 5;
    const bit = 1 << (id & 31);
    const follows = this.#follows[word];
    if ((follows & bit) !== 0) return id - 1;
    return this.#others[this.#othersBefore[word] + bitCount(~follows & (bit - 1))];
  }
}

/** Number of bits of a 32-bit word that are 1: sums of 2, then of 4 and of 8 bits. */
function bitCount(word: number): number {
  let bits = word - ((word >>> 1) & 0x5555_5555);
  bits = (bits & 0x3333_3333) + ((bits >>> 2) & 0x3333_3333);
  bits = (bits + (bits >>> 4)) & 0x0f0f_0f0f;
  return Math.imul(bits, 0x0101_0101) >>> 24;
}
