import { InvariantError } from "../../core/errors.ts";
import type { EntryId } from "../../core/plugins/index.ts";
import { BitSet } from "./bit-set.ts";
import type { EntryOrder } from "./score-heap.ts";

/** The sum of an integer and a fraction of [0, 1), which is not rounded up to the next unit. */
export const inUnit = (unit: number, fraction: number): number =>
  Math.min(unit + fraction, (unit + 1) * (1 - Number.EPSILON / 2));

const none = -1;
const notStored = -2;

/**
 * Evictable entries by score, of equals by a second number, for scores that are spread evenly over each unit: a calendar queue
 * (Brown, CACM 1988). A ring of buckets covers two units, each with at least as many buckets as there can be entries; a bucket is a
 * sorted list, of one entry on average. All scores must be in two successive units, [n, n + 2) for an integer n.
 */
export class CalendarQueue implements EntryOrder {
  // By entry.
  readonly #score: Float64Array;
  readonly #tie: Float64Array;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** By bucket: its first entry. */
  readonly #head: Int32Array;
  readonly #occupied: BitSet;
  readonly #bucketsPerUnit: number;
  /** No score is below this integer. */
  #least = 0;
  #count = 0;

  constructor(entryCount: number) {
    this.#bucketsPerUnit = 2 ** Math.ceil(Math.log2(Math.max(1, entryCount)));
    this.#score = new Float64Array(entryCount);
    this.#tie = new Float64Array(entryCount);
    this.#next = new Int32Array(entryCount).fill(none);
    this.#previous = new Int32Array(entryCount).fill(notStored);
    this.#head = new Int32Array(2 * this.#bucketsPerUnit).fill(none);
    this.#occupied = new BitSet(this.#head.length);
  }

  add(entry: EntryId, score: number, tie: number): void {
    this.remove(entry);
    const unit = Math.floor(score);
    if (this.#count++ === 0 || unit < this.#least) this.#least = unit;
    if (unit > this.#least + 1)
      throw new InvariantError(`the score ${score} is not within two units from ${this.#least}`);
    this.#score[entry] = score;
    this.#tie[entry] = tie;
    const bucket = this.#bucketOf(score);
    const head = this.#head[bucket];
    if (head === none) this.#occupied.add(bucket);
    let previous = none;
    let next = head;
    while (next !== none && !this.#precedes(entry, next)) {
      previous = next;
      next = this.#next[next];
    }
    this.#next[entry] = next;
    this.#previous[entry] = previous;
    if (next !== none) this.#previous[next] = entry;
    if (previous === none) this.#head[bucket] = entry;
    else this.#next[previous] = entry;
  }

  isEvictable(entry: EntryId): boolean {
    return this.#previous[entry] !== notStored;
  }

  scoreOf(entry: EntryId): number {
    return this.#score[entry];
  }

  tieOf(entry: EntryId): number {
    return this.#tie[entry];
  }

  remove(entry: EntryId): void {
    const previous = this.#previous[entry];
    if (previous === notStored) return;
    this.#count--;
    const next = this.#next[entry];
    this.#previous[entry] = notStored;
    if (next !== none) this.#previous[next] = previous;
    if (previous !== none) {
      this.#next[previous] = next;
      return;
    }
    const bucket = this.#bucketOf(this.#score[entry]);
    this.#head[bucket] = next;
    if (next === none) this.#occupied.remove(bucket);
  }

  first(): EntryId | undefined {
    if (this.#count === 0) return undefined;
    const bucket = this.#occupied.next(this.#bucketOf(this.#least)) ?? this.#occupied.next(0);
    const first = this.#head[bucket!];
    this.#least = Math.floor(this.#score[first]);
    return first;
  }

  #bucketOf(score: number): number {
    return Math.floor(score * this.#bucketsPerUnit) & (this.#head.length - 1);
  }

  #precedes(a: EntryId, b: EntryId): boolean {
    if (this.#score[a] !== this.#score[b]) return this.#score[a] < this.#score[b];
    return this.#tie[a] < this.#tie[b];
  }
}
