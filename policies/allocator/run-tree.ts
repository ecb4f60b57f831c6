import { lowestBit } from "./free-slots.ts";

/**
 * A segment tree over a bitmap of free slots, with a word of 32 slots per leaf. Each node stores, for the slots below it,
 * the length of the free run at the low end, at the high end, and of the longest one. A search and the update of a word
 * each walk one path between root and leaf, whatever the number of runs.
 */
export class RunTree {
  readonly #words: Int32Array;
  readonly #leaves: number;
  readonly #low: Int32Array;
  readonly #high: Int32Array;
  readonly #longest: Int32Array;

  /** Builds the tree of these words; later changes of a word need `update`. */
  constructor(words: Int32Array) {
    let leaves = 1;
    while (leaves < words.length) leaves *= 2;
    this.#words = words;
    this.#leaves = leaves;
    this.#low = new Int32Array(2 * leaves);
    this.#high = new Int32Array(2 * leaves);
    this.#longest = new Int32Array(2 * leaves);
    this.rebuild();
  }

  get longest(): number {
    return this.#longest[1];
  }

  /** Recomputes all nodes. */
  rebuild(): void {
    for (let w = 0; w < this.#words.length; w++) this.#measure(w);
    let slots = 32;
    for (let first = this.#leaves / 2; first >= 1; first /= 2) {
      for (let node = first; node < 2 * first; node++) this.#join(node, slots);
      slots *= 2;
    }
  }

  /** Recomputes the nodes above the words of these slots; consecutive slots in one word are handled once. */
  update(slots: Int32Array, from: number, to: number): void {
    let last = -1;
    for (let i = from; i < to; i++) {
      const w = slots[i] >>> 5;
      if (w !== last) this.#changed(w);
      last = w;
    }
  }

  /** First slot of the lowest run of at least `length` slots. */
  first(length: number): number | undefined {
    if (this.#longest[1] < length) return undefined;
    let node = 1;
    let begin = 0;
    let slots = 32 * this.#leaves;
    while (node < this.#leaves) {
      const left = 2 * node;
      slots /= 2;
      const across = this.#high[left] + this.#low[left + 1];
      if (this.#longest[left] >= length) node = left;
      else if (across >= length) return begin + slots - this.#high[left];
      else {
        node = left + 1;
        begin += slots;
      }
    }
    return begin + firstInWord(this.#words[node - this.#leaves], length);
  }

  #changed(w: number): void {
    this.#measure(w);
    let slots = 32;
    for (let node = (this.#leaves + w) >>> 1; node >= 1; node >>>= 1) {
      this.#join(node, slots);
      slots *= 2;
    }
  }

  #measure(w: number): void {
    const word = this.#words[w];
    const leaf = this.#leaves + w;
    this.#low[leaf] = word === -1 ? 32 : lowestBit(~word);
    this.#high[leaf] = Math.clz32(~word);
    this.#longest[leaf] = longestInWord(word);
  }

  /** Computes a node from its children, which cover `slots` slots each. */
  #join(node: number, slots: number): void {
    const left = 2 * node;
    const right = left + 1;
    const low = this.#low;
    const high = this.#high;
    const most = this.#longest;
    low[node] = low[left] === slots ? slots + low[right] : low[left];
    high[node] = high[right] === slots ? slots + high[left] : high[right];
    most[node] = Math.max(most[left], most[right], high[left] + low[right]);
  }
}

/** Index of the first run of `length` set bits. */
function firstInWord(word: number, length: number): number {
  for (let n = 1; n < length; n++) word &= word >>> 1;
  return lowestBit(word);
}

/** Length of the longest run of set bits. */
function longestInWord(word: number): number {
  let longest = 0;
  for (; word !== 0; word &= word << 1) longest++;
  return longest;
}
