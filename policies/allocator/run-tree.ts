import { lowestBit } from "./free-slots.ts";

/**
 * The runs of free slots in a bitmap: a binary tree with a word of 32 slots at each leaf. Every node knows, of the slots
 * below it, how many are free in a row at the low end, at the high end, and at most anywhere. A search and a changed word
 * cost one walk between root and leaf, however many runs there are.
 */
export class RunTree {
  readonly #words: Int32Array;
  readonly #leaves: number;
  readonly #low: Int32Array;
  readonly #high: Int32Array;
  readonly #most: Int32Array;

  /** The tree of these words as they are; it looks at them again where `changed` says so. */
  constructor(words: Int32Array) {
    let leaves = 1;
    while (leaves < words.length) leaves *= 2;
    this.#words = words;
    this.#leaves = leaves;
    this.#low = new Int32Array(2 * leaves);
    this.#high = new Int32Array(2 * leaves);
    this.#most = new Int32Array(2 * leaves);
    this.rebuild();
  }

  get longest(): number {
    return this.#most[1];
  }

  /** All words may have changed. */
  rebuild(): void {
    for (let w = 0; w < this.#words.length; w++) this.#measure(w);
    let slots = 32;
    for (let first = this.#leaves / 2; first >= 1; first /= 2) {
      for (let node = first; node < 2 * first; node++) this.#join(node, slots);
      slots *= 2;
    }
  }

  /** The words of these slots have changed; a row of slots in one word is looked at once. */
  changed(slots: Int32Array, from: number, to: number): void {
    let last = -1;
    for (let i = from; i < to; i++) {
      const w = slots[i] >>> 5;
      if (w !== last) this.#changed(w);
      last = w;
    }
  }

  /** Where the lowest run of at least so many slots begins. */
  first(wanted: number): number | undefined {
    if (this.#most[1] < wanted) return undefined;
    let node = 1;
    let begin = 0;
    let slots = 32 * this.#leaves;
    while (node < this.#leaves) {
      const left = 2 * node;
      slots /= 2;
      const across = this.#high[left] + this.#low[left + 1];
      if (this.#most[left] >= wanted) node = left;
      else if (across >= wanted) return begin + slots - this.#high[left];
      else {
        node = left + 1;
        begin += slots;
      }
    }
    return begin + firstInWord(this.#words[node - this.#leaves], wanted);
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
    this.#most[leaf] = longestInWord(word);
  }

  /** From the halves of a node, which have so many slots each. */
  #join(node: number, slots: number): void {
    const left = 2 * node;
    const right = left + 1;
    const low = this.#low;
    const high = this.#high;
    const most = this.#most;
    low[node] = low[left] === slots ? slots + low[right] : low[left];
    high[node] = high[right] === slots ? slots + high[left] : high[right];
    most[node] = Math.max(most[left], most[right], high[left] + low[right]);
  }
}

/** Place of the first `wanted` bits in a row. */
function firstInWord(word: number, wanted: number): number {
  for (let n = 1; n < wanted; n++) word &= word >>> 1;
  return lowestBit(word);
}

/** Most bits in a row. */
function longestInWord(word: number): number {
  let longest = 0;
  for (; word !== 0; word &= word << 1) longest++;
  return longest;
}
