const rows = 4;
const mostCount = 15;

/**
 * Approximate counts of how often each content was requested lately: a count-min sketch of four rows of counters from 0 to 15, which
 * are halved when as many requests as ten times the capacity have been counted (TinyLFU, Einziger, Friedman, Manes, ACM ToS 2017).
 * Only the smallest of a content's four counters are incremented. An estimate up to 14 is never below the count since the last halving.
 */
export class FrequencySketch {
  readonly #counts: Uint8Array;
  readonly #mask: number;
  readonly #sample: number;
  #counted = 0;

  /** `capacity`: number of contents that the cache has room for. */
  constructor(capacity: number) {
    let width = 16;
    while (width < capacity) width *= 2;
    this.#mask = width - 1;
    this.#counts = new Uint8Array(rows * width);
    this.#sample = 10 * capacity;
  }

  /** Counts a request of this content id. */
  add(key: number): void {
    const counts = this.#counts;
    const a = this.#at(key, 0);
    const b = this.#at(key, 1);
    const c = this.#at(key, 2);
    const d = this.#at(key, 3);
    const inA = counts[a];
    const inB = counts[b];
    const inC = counts[c];
    const inD = counts[d];
    const least = inA < inB ? inA : inB;
    const other = inC < inD ? inC : inD;
    const estimate = least < other ? least : other;
    if (estimate < mostCount) {
      // Results of comparisons are used as numbers, because a processor cannot predict branches on them.
      counts[a] = inA + Number(inA === estimate);
      counts[b] = inB + Number(inB === estimate);
      counts[c] = inC + Number(inC === estimate);
      counts[d] = inD + Number(inD === estimate);
    }
    if (++this.#counted < this.#sample) return;
    this.#counted >>>= 1;
    for (let at = 0; at < counts.length; at++) counts[at] >>>= 1;
  }

  /** Requests of this content id, approximately; at most 15. */
  estimate(key: number): number {
    const counts = this.#counts;
    return Math.min(
      counts[this.#at(key, 0)],
      counts[this.#at(key, 1)],
      counts[this.#at(key, 2)],
      counts[this.#at(key, 3)],
    );
  }

  /** Index of the counter of a content id in a row: multiplicative hashing, with another odd factor for each row. */
  #at(key: number, row: number): number {
    let hash = Math.imul(key + 1, factors[row]);
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x2c1b3c6d);
    hash ^= hash >>> 13;
    return row * (this.#mask + 1) + (hash & this.#mask);
  }
}

const factors = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f];
