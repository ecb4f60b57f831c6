import { grown } from "./grown.ts";

const none = -1;
const arity = 4;

/**
 * Entries in the order of a score, as sorted runs: linked lists in ascending order. An entry is linked beside the entry that was
 * added last, in O(1), if that is its position in the newest run. Otherwise a new run begins. The other runs are in a heap by
 * their first entries, O(log runs).
 *
 *   newest run   [ 1 2 2 5 ]     the next entry is linked beside the last one, or begins another run
 *   heap         [ 3 7 9 ]  [ 4 4 6 ]  [ 6 8 ]
 *
 * A request releases many entries whose scores mostly ascend or descend along its prompt. So there are far fewer runs than entries,
 * and consecutive victims are often of one run.
 */
export class SortedRuns {
  count = 0;
  readonly #score: Float64Array;
  readonly #precedesEqual: (a: number, b: number) => boolean;
  readonly #entryCount: number;
  /**
   * By node: its neighbours; `none` = not in a run. Nodes below `entryCount` are entries. The others are the ends of runs: a run is a
   * ring through its end.
   */
  #next: Int32Array;
  #previous: Int32Array;
  /** A heap of the ends of `#runs` runs that are not empty, with four children per node; then the ends that are not in use. */
  #heap: Int32Array = new Int32Array(0);
  // By position in the heap: the run's first entry and its score, so that a comparison mostly reads no other array.
  #first: Int32Array = new Int32Array(0);
  #firstScore: Float64Array = new Float64Array(0);
  #runs = 0;
  /** By end of a run, minus `entryCount`: its position in the heap. */
  #place: Int32Array = new Int32Array(1);
  /** End of the newest run, which is not in the heap. */
  #newest: number;
  /** The entry that was added last; after its removal, the node before it. */
  #last: number;

  /**
   * `score`: by entry; it must not change while the entry is stored. `precedesEqual`: a total order of entries with equal
   * scores.
   */
  constructor(score: Float64Array, precedesEqual: (a: number, b: number) => boolean) {
    const end = score.length;
    this.#score = score;
    this.#precedesEqual = precedesEqual;
    this.#entryCount = end;
    this.#next = new Int32Array(end + 1).fill(none);
    this.#previous = new Int32Array(end + 1);
    this.#next[end] = this.#previous[end] = end;
    this.#newest = this.#last = end;
  }

  has(entry: number): boolean {
    return this.#next[entry] !== none;
  }

  get first(): number | undefined {
    const newest = this.#next[this.#newest];
    if (this.#runs === 0) return newest < this.#entryCount ? newest : undefined;
    const other = this.#first[0];
    return newest < this.#entryCount && this.#precedes(newest, other) ? newest : other;
  }

  add(entry: number): void {
    this.count++;
    const entryCount = this.#entryCount;
    let previous = this.#last;
    let next = this.#next[previous];
    if (previous < entryCount && this.#precedes(entry, previous)) {
      next = previous;
      previous = this.#previous[next];
      if (previous < entryCount && this.#precedes(entry, previous)) next = previous = this.#beginRun();
    } else if (next < entryCount && this.#precedes(next, entry)) {
      next = previous = this.#beginRun();
    }
    this.#next[previous] = this.#previous[next] = this.#last = entry;
    this.#next[entry] = next;
    this.#previous[entry] = previous;
  }

  remove(entry: number): void {
    this.count--;
    const next = this.#next[entry];
    const previous = this.#previous[entry];
    this.#next[entry] = none;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    if (entry === this.#last) this.#last = previous;
    if (previous < this.#entryCount || previous === this.#newest) return;
    const at = this.#place[previous - this.#entryCount];
    if (next !== previous) this.#down(at, previous);
    else this.#removeRun(at, previous);
  }

  #precedes(a: number, b: number): boolean {
    const first = this.#score[a];
    const second = this.#score[b];
    return first < second || (first === second && this.#precedesEqual(a, b));
  }

  /** Adds the newest run to the heap; returns the end of a new one. */
  #beginRun(): number {
    if (this.#runs === this.#heap.length) this.#addEnds();
    const run = this.#newest;
    this.#newest = this.#heap[this.#runs];
    this.#up(this.#runs++, run);
    return this.#newest;
  }

  #addEnds(): void {
    const before = this.#heap.length;
    const length = 2 * before + 15;
    const end = this.#entryCount + 1;
    this.#next = grown(this.#next, end + length);
    this.#previous = grown(this.#previous, end + length);
    this.#place = grown(this.#place, 1 + length);
    this.#heap = grown(this.#heap, length);
    this.#first = grown(this.#first, length);
    this.#firstScore = grown(this.#firstScore, length);
    for (let i = before; i < length; i++) this.#heap[i] = this.#next[end + i] = this.#previous[end + i] = end + i;
  }

  #removeRun(at: number, run: number): void {
    const last = --this.#runs;
    const moved = this.#heap[last];
    this.#heap[last] = run;
    if (at === last) return;
    this.#up(at, moved);
    this.#down(this.#place[moved - this.#entryCount], moved);
  }

  #up(from: number, run: number): void {
    const first = this.#next[run];
    const score = this.#score[first];
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 2;
      const other = this.#firstScore[above];
      if (score > other || (score === other && !this.#precedesEqual(first, this.#first[above]))) break;
      this.#put(at, this.#heap[above], this.#first[above], other);
      at = above;
    }
    this.#put(at, run, first, score);
  }

  #down(from: number, run: number): void {
    const firsts = this.#first;
    const scores = this.#firstScore;
    const runs = this.#runs;
    const first = this.#next[run];
    const score = this.#score[first];
    let at = from;
    for (let child = arity * at + 1; child < runs; child = arity * at + 1) {
      const end = Math.min(child + arity, runs);
      let least = child;
      let leastScore = scores[child];
      for (child++; child < end; child++) {
        const other = scores[child];
        if (other > leastScore || (other === leastScore && !this.#precedesEqual(firsts[child], firsts[least])))
          continue;
        least = child;
        leastScore = other;
      }
      if (score < leastScore || (score === leastScore && this.#precedesEqual(first, firsts[least]))) break;
      this.#put(at, this.#heap[least], firsts[least], leastScore);
      at = least;
    }
    this.#put(at, run, first, score);
  }

  #put(at: number, run: number, first: number, score: number): void {
    this.#heap[at] = run;
    this.#first[at] = first;
    this.#firstScore[at] = score;
    this.#place[run - this.#entryCount] = at;
  }
}
