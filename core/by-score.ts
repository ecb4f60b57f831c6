import type { EntryColumns } from "./entries.ts";
import type { EntryId, EvictionContext, EvictionPolicy } from "./plugins.ts";

type ColumnName = {
  [Name in keyof EntryColumns]: EntryColumns[Name] extends Uint32Array | Int32Array | Float64Array ? Name : never;
}[keyof EntryColumns];

/**
 * One level of an order: a column, a column from large to small (`"-depth"`), or any number computed from the columns
 * when the entry becomes evictable.
 */
export type Score = ColumnName | `-${ColumnName}` | ((entry: EntryId, columns: EntryColumns) => number);

/**
 * A policy whose victim is the entry with the smallest score; the second score decides between equals, and so on, and
 * in the end who became evictable first. Scores are those of the moment when the entry became evictable: nothing that
 * the columns hold changes while an entry is not in use.
 *
 *   create: byScore("lastAccess", "releaseOrder")
 */
export function byScore(...scores: [Score, ...Score[]]): (context: EvictionContext) => EvictionPolicy {
  return ({ columns }) => new ScoreOrder(scores, columns);
}

const none = -1;

/** One level: entries compare by `sign * column[entry]`; a computed level fills its own column. */
interface Level {
  readonly column: Uint32Array | Int32Array | Float64Array;
  readonly sign: number;
  readonly compute: ((entry: EntryId, columns: EntryColumns) => number) | undefined;
}

/**
 * Two sorted structures, the victim is the smaller of their heads:
 *
 *   run   a linked list; an entry that belongs at its end, as nearly all do when time decides, is added in O(1)
 *   heap  the others (a re-released FIFO block, a tree's parent that became a leaf), O(log n)
 */
class ScoreOrder implements EvictionPolicy {
  readonly #columns: EntryColumns;
  readonly #levels: readonly Level[];
  readonly #computed: boolean;
  readonly #first: Level["column"];
  readonly #firstUp: boolean;
  readonly #before: Int32Array;
  readonly #after: Int32Array;
  #head = none;
  #tail = none;
  #heap: Int32Array | undefined;
  #heapLength = 0;
  /** Place in the heap, `none` for an entry of the run. */
  #place: Int32Array | undefined;

  constructor(scores: readonly Score[], columns: EntryColumns) {
    const entryCount = columns.key.length;
    this.#columns = columns;
    this.#levels = scores.map((score) => {
      if (typeof score === "function") return { column: new Float64Array(entryCount), sign: 1, compute: score };
      const down = score.startsWith("-");
      const name = (down ? score.slice(1) : score) as ColumnName;
      return { column: columns[name], sign: down ? -1 : 1, compute: undefined };
    });
    this.#first = this.#levels[0].column;
    this.#firstUp = this.#levels[0].sign > 0;
    this.#computed = this.#levels.some((level) => level.compute);
    this.#before = new Int32Array(entryCount);
    this.#after = new Int32Array(entryCount);
  }

  add(entry: EntryId): void {
    if (this.#computed) this.#compute(entry);
    const tail = this.#tail;
    if (tail !== none && this.#less(entry, tail)) {
      this.#push(entry);
      return;
    }
    this.#before[entry] = tail;
    this.#after[entry] = none;
    if (tail === none) this.#head = entry;
    else this.#after[tail] = entry;
    this.#tail = entry;
  }

  remove(entry: EntryId): void {
    if (this.#place !== undefined && this.#place[entry] !== none) {
      this.#removeFromHeap(entry);
      return;
    }
    const before = this.#before[entry];
    const after = this.#after[entry];
    if (before === none) this.#head = after;
    else this.#after[before] = after;
    if (after === none) this.#tail = before;
    else this.#before[after] = before;
  }

  victim(): EntryId | undefined {
    if (this.#heapLength > 0) {
      const top = this.#heap![0];
      return this.#head === none || this.#less(top, this.#head) ? top : this.#head;
    }
    return this.#head === none ? undefined : this.#head;
  }

  #compute(entry: EntryId): void {
    for (const { column, compute } of this.#levels) if (compute) column[entry] = compute(entry, this.#columns);
  }

  #less(a: EntryId, b: EntryId): boolean {
    const difference = this.#first[a] - this.#first[b];
    if (difference !== 0) return difference < 0 === this.#firstUp;
    return this.#lessAfterFirst(a, b);
  }

  #lessAfterFirst(a: EntryId, b: EntryId): boolean {
    const levels = this.#levels;
    for (let i = 1; i < levels.length; i++) {
      const { column, sign } = levels[i];
      const difference = (column[a] - column[b]) * sign;
      if (difference !== 0) return difference < 0;
    }
    return false;
  }

  #push(entry: EntryId): void {
    this.#heap ??= new Int32Array(this.#before.length);
    this.#place ??= new Int32Array(this.#before.length).fill(none);
    this.#up(this.#heapLength++, entry);
  }

  #removeFromHeap(entry: EntryId): void {
    const hole = this.#place![entry];
    this.#place![entry] = none;
    const moved = this.#heap![--this.#heapLength];
    if (moved === entry) return;
    if (hole > 0 && this.#less(moved, this.#heap![(hole - 1) >> 1])) this.#up(hole, moved);
    else this.#down(hole, moved);
  }

  #up(at: number, entry: EntryId): void {
    const heap = this.#heap!;
    const place = this.#place!;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!this.#less(entry, heap[above])) break;
      heap[at] = heap[above];
      place[heap[at]] = at;
      at = above;
    }
    heap[at] = entry;
    place[entry] = at;
  }

  #down(at: number, entry: EntryId): void {
    const heap = this.#heap!;
    const place = this.#place!;
    const length = this.#heapLength;
    for (let child = 2 * at + 1; child < length; child = 2 * at + 1) {
      if (child + 1 < length && this.#less(heap[child + 1], heap[child])) child++;
      if (!this.#less(heap[child], entry)) break;
      heap[at] = heap[child];
      place[heap[at]] = at;
      at = child;
    }
    heap[at] = entry;
    place[entry] = at;
  }
}
