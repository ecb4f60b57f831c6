import { grown } from "./grown.ts";

const none = -1;
const arity = 4;

/**
 * Entries in the order of a score, of equals of a second number, as sorted runs: linked lists in ascending order. An entry is linked
 * beside the entry that was added last, in O(1), if that is its position in the newest run. Otherwise a new run begins. The other runs
 * are in a heap by their first entries, O(log runs).
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
  readonly #tie: Float64Array;
  readonly #precedesEqual: ((a: number, b: number) => boolean) | undefined;
  readonly #entryCount: number;
  /**
   * By node: its neighbours; `none` = not in a run. Nodes below `entryCount` are entries. The others are the ends of runs: a run is a
   * ring through its end.
   */
  #next: Int32Array;
  #previous: Int32Array;
  /** A heap of the ends of `#runs` runs that are not empty, with four children per node; then the ends that are not in use. */
  #heap: Int32Array = new Int32Array(0);
  // By position in the heap: score and second number of the run's first entry, or of an earlier one that was removed, unless
  // `precedesEqual` needs the first entry itself; `Infinity` behind the last run.
  #firstScore: Float64Array = new Float64Array(0);
  #firstTie: Float64Array = new Float64Array(0);
  #runs = 0;
  /** By end of a run, minus `entryCount`: its position in the heap. */
  #place: Int32Array = new Int32Array(1);
  /** End of the newest run, which is not in the heap. */
  #newest: number;
  /** The entry that was added last; after its removal, the node before it. */
  #last: number;

  /**
   * `score` and `tie`: by entry; they must not change while the entry is stored. `precedesEqual`: an order of entries that are equal in
   * both.
   */
  constructor(score: Float64Array, tie: Float64Array, precedesEqual?: (a: number, b: number) => boolean) {
    const end = score.length;
    this.#score = score;
    this.#tie = tie;
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
    if (newest >= this.#entryCount) return this.#runs === 0 ? undefined : this.#firstOfHeap();
    if (this.#runs === 0 || this.#precedesRun(newest, 0)) return newest;
    const other = this.#firstOfHeap();
    return this.#precedes(newest, other) ? newest : other;
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
    if (next === previous) this.#removeRun(this.#place[previous - this.#entryCount], previous);
    else if (this.#precedesEqual !== undefined) this.#down(this.#place[previous - this.#entryCount], previous);
  }

  /** The smallest first entry of a run in the heap, after the run on top has its position by its first entry. */
  #firstOfHeap(): number {
    for (;;) {
      const run = this.#heap[0];
      const first = this.#next[run];
      if (this.#score[first] === this.#firstScore[0] && this.#tie[first] === this.#firstTie[0]) return first;
      this.#down(0, run);
      if (this.#heap[0] === run) return first;
    }
  }

  #precedes(a: number, b: number): boolean {
    const first = this.#score[a];
    const second = this.#score[b];
    if (first !== second) return first < second;
    const firstTie = this.#tie[a];
    const secondTie = this.#tie[b];
    if (firstTie !== secondTie) return firstTie < secondTie;
    return this.#precedesEqual?.(a, b) ?? false;
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
    // A node has four children also at the end of the heap.
    this.#firstScore = grown(this.#firstScore, length + arity).fill(Number.POSITIVE_INFINITY, before);
    this.#firstTie = grown(this.#firstTie, length + arity).fill(Number.POSITIVE_INFINITY, before);
    for (let i = before; i < length; i++) this.#heap[i] = this.#next[end + i] = this.#previous[end + i] = end + i;
  }

  #removeRun(at: number, run: number): void {
    const last = --this.#runs;
    const moved = this.#heap[last];
    this.#heap[last] = run;
    this.#firstScore[last] = this.#firstTie[last] = Number.POSITIVE_INFINITY;
    if (at === last) return;
    this.#up(at, moved);
    this.#down(this.#place[moved - this.#entryCount], moved);
  }

  #up(from: number, run: number): void {
    const first = this.#next[run];
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 2;
      if (!this.#precedesRun(first, above)) break;
      this.#move(above, at);
      at = above;
    }
    this.#put(at, run, first);
  }

  #down(from: number, run: number): void {
    const first = this.#next[run];
    let at = from;
    for (let child = arity * at + 1; child < this.#runs; child = arity * at + 1) {
      const least = this.#leastOf(child);
      if (this.#precedesRun(first, least)) break;
      this.#move(least, at);
      at = least;
    }
    this.#put(at, run, first);
  }

  /** Whether the entry precedes the first one of the run at this position of the heap. */
  #precedesRun(entry: number, at: number): boolean {
    const score = this.#score[entry];
    const other = this.#firstScore[at];
    if (score !== other) return score < other;
    const tie = this.#tie[entry];
    const otherTie = this.#firstTie[at];
    if (tie !== otherTie) return tie < otherTie;
    return this.#precedesEqual?.(entry, this.#next[this.#heap[at]]) ?? false;
  }

  /**
   * Of four siblings in the heap the run that begins with the smallest entry. Results of comparisons are used as numbers, because a
   * processor cannot predict branches on them.
   */
  #leastOf(child: number): number {
    const scores = this.#firstScore;
    const a = scores[child];
    const b = scores[child + 1];
    const c = scores[child + 2];
    const d = scores[child + 3];
    const left = child + Number(b < a);
    const right = child + 2 + Number(d < c);
    const e = scores[left];
    const f = scores[right];
    if ((Number(a === b) | Number(c === d) | Number(e === f)) !== 0) return this.#leastOfEqual(child);
    return left + (right - left) * Number(f < e);
  }

  /** `#leastOf` if two scores are equal. */
  #leastOfEqual(child: number): number {
    if (this.#precedesEqual !== undefined) return this.#leastByOrder(child);
    const left = child + this.#secondPrecedes(child, child + 1);
    const right = child + 2 + this.#secondPrecedes(child + 2, child + 3);
    return left + (right - left) * this.#secondPrecedes(left, right);
  }

  /** 1 if the run at `b` begins with a smaller entry than the one at `a`, else 0. */
  #secondPrecedes(a: number, b: number): number {
    const scores = this.#firstScore;
    const ties = this.#firstTie;
    const first = scores[a];
    const second = scores[b];
    return Number(second < first) | (Number(second === first) & Number(ties[b] < ties[a]));
  }

  /** `#leastOf` if more than two numbers decide. */
  #leastByOrder(child: number): number {
    const end = Math.min(child + arity, this.#runs);
    let least = child;
    for (let other = child + 1; other < end; other++)
      if (this.#precedesRun(this.#next[this.#heap[other]], least)) least = other;
    return least;
  }

  /** Moves the run at one position of the heap to another. */
  #move(from: number, to: number): void {
    const run = this.#heap[from];
    this.#heap[to] = run;
    this.#firstScore[to] = this.#firstScore[from];
    this.#firstTie[to] = this.#firstTie[from];
    this.#place[run - this.#entryCount] = to;
  }

  /** Puts a run with this first entry at a position of the heap. */
  #put(at: number, run: number, first: number): void {
    this.#heap[at] = run;
    this.#firstScore[at] = this.#score[first];
    this.#firstTie[at] = this.#tie[first];
    this.#place[run - this.#entryCount] = at;
  }
}
