import { InvariantError } from "../../core/errors.ts";
import { grown } from "../../core/grown.ts";

/** Place of the lowest bit that is set; −1 if none is. */
export const lowestBit = (word: number): number => 31 - Math.clz32(word & -word);

const wordsFor = (bits: number): number => Math.max(1, (bits + 31) >>> 5);

/**
 * Free slots as a bitmap with summaries: bit w of a level tells whether word w of the level below has any bit set, up to
 * a single word at the top. Finding the lowest free slot reads one word of each level.
 */
export class FreeSlots {
  count = 0;
  /** A bit for each slot, set while it is free. */
  words: Int32Array;
  /** The bitmap, its summary, that one's summary ... */
  #levels: Int32Array[];

  /** All slots below `slotCount`, of which none is free yet. */
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
    if (before === after) throw new InvariantError(`slot ${slot} is given back, and free`);
    this.words[w] = after;
    this.count++;
    if (before === 0) this.#wordFilled(w);
  }

  /** The lowest free slots, in ascending order, to `table[from .. to)`; there are enough. */
  takeLowest(table: Int32Array, from: number, to: number): void {
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

  /** The slots from `slot` on, which are free, to `table[from .. to)`. */
  takeFrom(slot: number, table: Int32Array, from: number, to: number): void {
    const { words } = this;
    for (let at = from; at < to; at++, slot++) {
      table[at] = slot;
      const w = slot >>> 5;
      words[w] &= ~(1 << slot);
      if (words[w] === 0) this.#wordEmptied(w);
    }
    this.count -= to - from;
  }

  /** In ascending order. */
  list(): Int32Array {
    const slots = new Int32Array(this.count);
    let at = 0;
    this.words.forEach((word, w) => {
      for (; word !== 0; word &= word - 1) slots[at++] = 32 * w + lowestBit(word);
    });
    return slots;
  }

  /** Length of the longest row of free neighbours. */
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

  /** There is one. */
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

/** The words and their summaries, up to one that is a single word. */
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
