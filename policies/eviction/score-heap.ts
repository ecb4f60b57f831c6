import { grown } from "../../core/grown.ts";
import type { EntryId } from "../../core/plugins/index.ts";

const none = -1;
const arity = 4;

/**
 * Evictable entries by score, of equals by a second number. A heap with four children per node, and with the scores beside the
 * entries, so that a comparison reads no other array.
 *
 * Removals and larger scores are lazy: an entry that is not evictable stays in the heap, and returns in O(1) if its score is not
 * smaller than before, as that of an entry that was used again. `first` removes it or moves it down when it is on top. So
 * each entry is moved at most once per addition, and all operations are O(log n), amortised.
 */
export class ScoreHeap {
  // By entry: its score and tie-breaker, whether it is evictable, and its position in the heap (`none` = not in the heap).
  readonly #scoreOf: Float64Array;
  readonly #tieOf: Float64Array;
  readonly #isEvictable: Uint8Array;
  readonly #at: Int32Array;
  // By position: the entry, and score and tie-breaker that are at most those of the entry.
  #entry: Int32Array = new Int32Array(64);
  #score: Float64Array = new Float64Array(64);
  #tie: Float64Array = new Float64Array(64);
  #count = 0;

  constructor(entryCount: number) {
    this.#scoreOf = new Float64Array(entryCount);
    this.#tieOf = new Float64Array(entryCount);
    this.#isEvictable = new Uint8Array(entryCount);
    this.#at = new Int32Array(entryCount).fill(none);
  }

  /** The entry is evictable with this score; also changes the score of an evictable entry. */
  add(entry: EntryId, score: number, tie: number): void {
    this.#scoreOf[entry] = score;
    this.#tieOf[entry] = tie;
    this.#isEvictable[entry] = 1;
    const at = this.#at[entry];
    if (at === none) {
      if (this.#count === this.#entry.length) this.#grow();
      this.#up(this.#count++, entry, score, tie);
    } else if (score < this.#score[at] || (score === this.#score[at] && tie < this.#tie[at])) {
      this.#up(at, entry, score, tie);
    }
  }

  isEvictable(entry: EntryId): boolean {
    return this.#isEvictable[entry] === 1;
  }

  /** The tie-breaker of an entry. */
  tieOf(entry: EntryId): number {
    return this.#tieOf[entry];
  }

  /** The entry is not evictable for now. */
  block(entry: EntryId): void {
    this.#isEvictable[entry] = 0;
  }

  /** The entry is not stored any more. */
  remove(entry: EntryId): void {
    this.#isEvictable[entry] = 0;
    const at = this.#at[entry];
    if (at !== none) this.#removeAt(at);
  }

  /** The evictable entry with the smallest score. */
  first(): EntryId | undefined {
    while (this.#count > 0) {
      const entry = this.#entry[0];
      const score = this.#scoreOf[entry];
      const tie = this.#tieOf[entry];
      if (this.#isEvictable[entry] === 0) this.#removeAt(0);
      else if (score !== this.#score[0] || tie !== this.#tie[0]) this.#down(0, entry, score, tie);
      else return entry;
    }
    return undefined;
  }

  #removeAt(gap: number): void {
    this.#at[this.#entry[gap]] = none;
    const last = --this.#count;
    if (gap === last) return;
    const entry = this.#entry[last];
    const score = this.#score[last];
    const tie = this.#tie[last];
    const above = (gap - 1) >> 2;
    if (gap > 0 && this.#precedes(score, tie, above)) this.#up(gap, entry, score, tie);
    else this.#down(gap, entry, score, tie);
  }

  #precedes(score: number, tie: number, at: number): boolean {
    const other = this.#score[at];
    return score < other || (score === other && tie < this.#tie[at]);
  }

  #up(from: number, entry: EntryId, score: number, tie: number): void {
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 2;
      if (!this.#precedes(score, tie, above)) break;
      this.#put(at, this.#entry[above], this.#score[above], this.#tie[above]);
      at = above;
    }
    this.#put(at, entry, score, tie);
  }

  #down(from: number, entry: EntryId, score: number, tie: number): void {
    let at = from;
    for (;;) {
      const first = arity * at + 1;
      if (first >= this.#count) break;
      const end = Math.min(first + arity, this.#count);
      let least = first;
      for (let child = first + 1; child < end; child++)
        if (this.#precedes(this.#score[child], this.#tie[child], least)) least = child;
      const leastScore = this.#score[least];
      if (score < leastScore || (score === leastScore && tie <= this.#tie[least])) break;
      this.#put(at, this.#entry[least], leastScore, this.#tie[least]);
      at = least;
    }
    this.#put(at, entry, score, tie);
  }

  #put(at: number, entry: EntryId, score: number, tie: number): void {
    this.#entry[at] = entry;
    this.#score[at] = score;
    this.#tie[at] = tie;
    this.#at[entry] = at;
  }

  #grow(): void {
    const length = 2 * this.#entry.length;
    this.#entry = grown(this.#entry, length);
    this.#score = grown(this.#score, length);
    this.#tie = grown(this.#tie, length);
  }
}
