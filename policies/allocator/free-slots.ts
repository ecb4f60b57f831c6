import { InvariantError } from "../../core/errors.ts";
import { grown } from "../../core/grown.ts";

/** Index of the lowest set bit; −1 if none is set. */
export const lowestBit = (word: number): number => 31 - Math.clz32(word & -word);

const wordsFor = (bits: number): number => Math.max(1, (bits + 31) >>> 5);

/**
 * A hierarchical bitmap of free slots: bit w of a level is set if word w of the level below is not 0; the top level is a
 * single word. Finding the lowest free slot reads one word per level.
 */
export class FreeSlots {
  count = 0;
  /** One bit per slot, set while the slot is free. */
  words: Int32Array;
  /** The bitmap (level 0) and its summaries. */
  #levels: Int32Array[];

  /** Slots 0 to `slotCount` − 1, none of them free. */
  constructor(slotCount: number) {
    this.words = new Int32Array(wordsFor(slotCount));
    this.#levels = summaries(this.words);
  }

  grow(slotCount: number): void {
    this.words = grown(this.words, wordsFor(slotCount));
    this.#levels = summaries(this.words);
  }

  clear(): void {
    for (const level of this.#levels) level.fill(0);
    this.count = 0;
  }

  addRange(from: number, to: number): void {
    for (let slot = from; slot < to; slot++) this.add(slot);
  }

  add(slot: number): void {
    const w = slot >>> 5;
    const before = this.words[w];
    const after = before | (1 << slot);
    if (before === after) throw new InvariantError(`slot ${slot} was released, but is free already`);
    this.words[w] = after;
    this.count++;
    if (before === 0) this.#wordFilled(w);
  }

  /** Writes the lowest free slots, in ascending order, to `table[from .. to)`; the caller has checked that there are enough. */
  allocateLowest(table: Int32Array, from: number, to: number): void {
    const { words } = this;
    let at = from;
    while (at < to) {
      const w = this.#lowestWord();
      let word = words[w];
      while (word !== 0 && at < to) {
        table[at++] = 32 * w + lowestBit(word);
        word &= word - 1;
      }
      words[w] = word;
      if (word === 0) this.#wordEmptied(w);
    }
    this.count -= to - from;
  }

  /** Writes consecutive slots from `slot` on, which must be free, to `table[from .. to)`. */
  allocateFrom(slot: number, table: Int32Array, from: number, to: number): void {
    const { words } = this;
    for (let at = from; at < to; at++, slot++) {
      table[at] = slot;
      const w = slot >>> 5;
      words[w] &= ~(1 << slot);
      if (words[w] === 0) this.#wordEmptied(w);
    }
    this.count -= to - from;
  }

  /** The free slots in ascending order. */
  list(): Int32Array {
    const slots = new Int32Array(this.count);
    let at = 0;
    this.words.forEach((word, w) => {
      for (; word !== 0; word &= word - 1) slots[at++] = 32 * w + lowestBit(word);
    });
    return slots;
  }

  /** Length of the longest run of consecutive free slots. */
  longestRun(): number {
    let longest = 0;
    let run = 0;
    let last = -2;
    for (const slot of this.list()) {
      run = slot === last + 1 ? run + 1 : 1;
      last = slot;
      if (run > longest) longest = run;
    }
    return longest;
  }

  /** Index of the first word that is not 0; there must be one. */
  #lowestWord(): number {
    let w = 0;
    for (let level = this.#levels.length - 1; level > 0; level--) w = 32 * w + lowestBit(this.#levels[level][w]);
    return w;
  }

  #wordFilled(w: number): void {
    for (let level = 1; level < this.#levels.length; level++) {
      const summary = this.#levels[level];
      const before = summary[w >>> 5];
      summary[w >>> 5] = before | (1 << w);
      if (before !== 0) return;
      w >>>= 5;
    }
  }

  #wordEmptied(w: number): void {
    for (let level = 1; level < this.#levels.length; level++) {
      const summary = this.#levels[level];
      summary[w >>> 5] &= ~(1 << w);
      w >>>= 5;
      if (summary[w] !== 0) return;
    }
  }
}

/** All levels: the words and their summaries, up to a single word. */
function summaries(words: Int32Array): Int32Array[] {
  const levels = [words];
  for (let below = words; below.length > 1; below = levels[levels.length - 1]) {
    const level = new Int32Array(wordsFor(below.length));
    below.forEach((word, w) => {
      if (word !== 0) level[w >>> 5] |= 1 << w;
    });
    levels.push(level);
  }
  return levels;
}
