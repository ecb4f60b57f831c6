import { PolicyError } from "../errors.ts";
import { SortedRuns } from "../sorted-runs.ts";
import { type ColumnName, columnNamed, columnNames, type EntryColumns } from "./entry-columns.ts";
import type { EntryId, EvictionContext, EvictionPolicy } from "./index.ts";
import type { Rules } from "./rules.ts";

/**
 * One level of an order: a column, a column in descending order (`"-depth"`), or a number computed from the columns when the
 * entry becomes evictable.
 */
export type Score = ColumnName | `-${ColumnName}` | ((entry: EntryId, columns: EntryColumns) => number);

/**
 * A policy whose victim is the entry with the smallest score; ties are broken by the next score, and finally by the order in
 * which entries became evictable. Scores are computed when an entry becomes evictable: columns do not change while it is
 * unreferenced.
 *
 *   export const lru: EvictionPlugin = { name: "lru", …, ...byScore("lastAccess") };
 *
 * The policy declares the columns that its scores read: all columns if a score is a function. A policy that uses such an order
 * inside its own `create` declares the columns itself.
 */
export function byScore(...scores: [Score, ...Score[]]): ScoredPolicy {
  // If every entry is evictable once it is released, entries are added in the order of `lastAccess`.
  const byRelease = (rules: Rules) => scores.length === 1 && scores[0] === "lastAccess" && rules.victims === "any";
  return {
    columns: (rules) =>
      byRelease(rules) ? [] : scores.some(isComputed) ? columnNames : scores.flatMap(columnsOfScore),
    create: ({ columns, rules }) => new ScoreOrder(byRelease(rules) ? [] : scores, columns),
  };
}

/** The part of an eviction plug-in that follows from its scores. */
export interface ScoredPolicy {
  /** The columns that the scores read. */
  readonly columns: (rules: Rules) => readonly ColumnName[];
  /** The policy for one cache. */
  readonly create: (context: EvictionContext) => EvictionPolicy;
}

/** Whether a policy is an order that `byScore` created: its batch methods are not a user's code. */
export const isScoreOrder = (policy: EvictionPolicy): policy is Required<BatchMethods> & EvictionPolicy =>
  policy instanceof ScoreOrder;

type BatchMethods = Pick<EvictionPolicy, "addMany" | "takeMany" | "takeNext">;

const isComputed = (score: Score) => typeof score === "function";

/** A misspelt column is not declared here; `create` throws. */
function columnsOfScore(score: Score): ColumnName[] {
  const name = String(score).replace(/^-/, "");
  // `releaseOrder` follows from `depth` (ascending or descending), so only the column `depth` is declared.
  return columnNames.filter((column) => column === (name === "releaseOrder" ? "depth" : name));
}

const none = -1;
const amongOthers = -2;

/** An entry that was at place p of the run and is referenced now has the place `referencedAt - p`. */
const referencedAt = -(2 ** 30);

/**
 * Whether the place of an entry does not change while it is stored. `createdAt` never changes, and one operation creates
 * entries of one request only, which differ in depth.
 */
const keepsPlace = (scores: readonly Score[]) =>
  scores.length === 2 && scores[0] === "createdAt" && (scores[1] === "releaseOrder" || scores[1] === "depth");

/** One level: entries compare by `sign * column[entry]`; a computed level fills its own column. */
interface Level {
  readonly column: Uint32Array | Int32Array | Float64Array;
  readonly sign: number;
  readonly compute: ((entry: EntryId, columns: EntryColumns) => number) | undefined;
}

/**
 * Two sorted structures; the victim is the smaller of their heads:
 *
 *   run    a queue in a ring buffer: appending an entry takes one write (in orders by time nearly all entries are
 *          appended), and so does a removal, which leaves a gap that the head skips (the entry
 *          returns to its gap if its scores never change, as those of a FIFO block)
 *   others   all other entries, such as a tree node that became a leaf when its children were evicted, as sorted runs
 */
class ScoreOrder implements EvictionPolicy {
  readonly #columns: EntryColumns;
  readonly #levels: readonly Level[];
  readonly #computed: boolean;
  /** Whether a referenced entry returns to its place in the run when it is released. */
  readonly #fixed: boolean;
  /** There are no levels: entries are evicted in the order of their addition. */
  readonly #byArrival: boolean;
  readonly #first: Level["column"];
  readonly #firstSign: number;
  readonly #second: Level["column"];
  readonly #secondSign: number;
  /**
   * Two tables in one array, because an access to one more array costs as much as the access itself:
   *
   *   [0 .. ringAt)    by entry: its place in the run, or `amongOthers`; `none` = in neither
   *   [ringAt .. )     the run: place p is at `ringAt + (p & mask)`; it is a gap unless p is the place of its entry
   */
  readonly #order: Int32Array;
  readonly #ringAt: number;
  readonly #mask: number;
  #head = 0;
  #end = 0;
  /** Scores of the last entry that was appended to the run, even if it was removed since. */
  #lastFirst = Number.NEGATIVE_INFINITY;
  #lastSecond = Number.NEGATIVE_INFINITY;
  /**
   * After `takeNext`, the smallest first score of the remaining entries; valid until the next call of `takeNext`, if no other
   * method is called in between.
   */
  #leastFirst = Number.POSITIVE_INFINITY;
  #others: SortedRuns | undefined;
  /** By entry of `#others`: its first two scores, and the number of its addition, which breaks ties. */
  #score = new Float64Array(0);
  #secondScore = new Float64Array(0);
  #arrival = new Float64Array(0);
  #arrivals = 0;

  constructor(scores: readonly Score[], columns: EntryColumns) {
    const entryCount = columns.key.length;
    this.#columns = columns;
    this.#levels = scores.map((score) => {
      if (typeof score === "function") return { column: new Float64Array(entryCount), sign: 1, compute: score };
      const sign = score.startsWith("-") ? -1 : 1;
      const name = columnNamed(sign < 0 ? score.slice(1) : score);
      if (name !== "releaseOrder" || !columns.keepsDepth) return { column: columns[name], sign, compute: undefined };
      return { column: columns.depth, sign: columns.forward ? sign : -sign, compute: undefined };
    });
    const constant = { column: columns.key, sign: 0 };
    const [first = constant, second = constant] = this.#levels;
    this.#first = first.column;
    this.#firstSign = first.sign;
    this.#second = second.column;
    this.#secondSign = second.sign;
    this.#fixed = keepsPlace(scores);
    // A new entry may have the number of a block that was dropped while it was referenced; the new entry has no place yet.
    if (this.#fixed) this.published = (entry) => this.#clearPlace(entry);
    this.#byArrival = scores.length === 0;
    this.#computed = this.#levels.some((level) => level.compute);
    if (this.#computed || scores.some((score) => /^-?(tokens|recomputeCost)$/.test(String(score)))) {
      this.split = (lower) => {
        if (this.#order[lower] === none) return;
        this.remove(lower, "dropped");
        this.add(lower);
      };
    }
    const ringLength = 2 ** Math.ceil(Math.log2(Math.max(16, 2 * entryCount)));
    this.#mask = ringLength - 1;
    this.#ringAt = entryCount;
    this.#order = new Int32Array(entryCount + ringLength).fill(none, 0, entryCount);
  }

  add(entry: EntryId): void {
    if (this.#order[entry] <= referencedAt && this.#returnsToPlace(entry)) return;
    if (this.#computed) this.#compute(entry);
    const first = this.#first[entry] * this.#firstSign;
    const second = this.#second[entry] * this.#secondSign;
    if (first < this.#lastFirst || (first === this.#lastFirst && !(second > this.#lastSecond) && !this.#ties(second))) {
      this.#addToOthers(entry);
      return;
    }
    this.#lastFirst = first;
    this.#lastSecond = second;
    if (this.#end - this.#head > this.#mask || this.#end === 2 ** 30) this.#closeGaps();
    this.#order[this.#ringAt + (this.#end & this.#mask)] = entry;
    this.#order[entry] = this.#end++;
  }

  addMany(entries: Int32Array, count: number): void {
    if (this.#byArrival && this.#end - this.#head + count <= this.#mask + 1 && this.#end + count < 2 ** 30) {
      this.#append(entries, count);
      return;
    }
    for (let i = 0; i < count; i++) this.add(entries[i]);
  }

  #append(entries: Int32Array, count: number): void {
    const order = this.#order;
    const ringAt = this.#ringAt;
    const mask = this.#mask;
    let end = this.#end;
    for (let i = 0; i < count; i++) {
      const entry = entries[i];
      order[ringAt + (end & mask)] = entry;
      order[entry] = end;
      end = (end + 1) | 0;
    }
    this.#end = end;
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    const place = this.#order[entry];
    this.#order[entry] = why === "referenced" && this.#fixed && place > none ? referencedAt - place : none;
    if (place === amongOthers) this.#others!.remove(entry);
  }

  published?: (entry: EntryId) => void;
  /** The lower part of a split run is shorter, which changes scores that depend on the length. */
  split?: (lower: EntryId) => void;

  #clearPlace(entry: EntryId): void {
    this.#order[entry] = none;
  }

  /** An entry whose scores never change returns to its old position, if the head has not passed it. */
  #returnsToPlace(entry: EntryId): boolean {
    const place = referencedAt - this.#order[entry];
    const isThere =
      place >= this.#head && place < this.#end && this.#order[this.#ringAt + (place & this.#mask)] === entry;
    this.#order[entry] = isThere ? place : none;
    return isThere;
  }

  victim(): EntryId | undefined {
    const head = this.#runHead();
    const other = this.#others?.first;
    if (other === undefined) return head;
    return head === undefined || this.#less(other, head) ? other : head;
  }

  takeMany(into: Int32Array, from: number, to: number): number {
    let at = from | 0;
    if (this.#others?.first === undefined) {
      const order = this.#order;
      const ringAt = this.#ringAt;
      const mask = this.#mask;
      const end = this.#end;
      let head = this.#head;
      for (; head < end && at < to; head++) {
        const entry = order[ringAt + (head & mask)];
        if (order[entry] !== head) continue;
        order[entry] = none;
        into[at++] = entry;
      }
      this.#head = head;
      return at;
    }
    for (; at < to; at++) {
      const victim = this.victim();
      if (victim === undefined) return at;
      this.remove(victim, "evicted");
      into[at] = victim;
    }
    return at;
  }

  takeNext(added: EntryId): EntryId {
    if (added !== none) {
      // The parent of the last victim is the next victim if its score is below all others: a path is evicted from its end.
      const isNext =
        this.#levels.length > 0 && !this.#computed && this.#first[added] * this.#firstSign < this.#leastFirst;
      if (isNext) return added;
      this.add(added);
    }
    const victim = this.victim();
    if (victim === undefined) return none;
    this.remove(victim, "evicted");
    const other = this.victim();
    this.#leastFirst = other === undefined ? Number.POSITIVE_INFINITY : this.#first[other] * this.#firstSign;
    return victim;
  }

  #runHead(): EntryId | undefined {
    while (this.#head < this.#end) {
      const entry = this.#order[this.#ringAt + (this.#head & this.#mask)];
      if (this.#order[entry] === this.#head) return entry;
      this.#head++;
    }
    return undefined;
  }

  /** With more than two levels, entries with equal first two scores are among the others, which compare all levels. */
  #ties(second: number): boolean {
    return second === this.#lastSecond && this.#levels.length <= 2;
  }

  /** Moves the entries of the run, and those that may return to it, to its beginning, without gaps. */
  #closeGaps(): void {
    const order = this.#order;
    const kept = new Int32Array(this.#mask + 1);
    let count = 0;
    for (let place = this.#head; place < this.#end; place++) {
      const entry = order[this.#ringAt + (place & this.#mask)];
      if (order[entry] === place || order[entry] === referencedAt - place) kept[count++] = entry;
    }
    order.set(kept, this.#ringAt);
    for (let place = 0; place < count; place++)
      order[kept[place]] = order[kept[place]] <= referencedAt ? referencedAt - place : place;
    this.#head = 0;
    this.#end = count;
  }

  #compute(entry: EntryId): void {
    for (const { column, compute } of this.#levels) {
      if (compute === undefined) continue;
      const score: unknown = compute(entry, this.#columns);
      if (typeof score !== "number" || Number.isNaN(score)) {
        throw new PolicyError(`the score of entry ${entry} is ${String(score)}, expected a number`);
      }
      column[entry] = score;
    }
  }

  #less(a: EntryId, b: EntryId): boolean {
    for (const { column, sign } of this.#levels) {
      const difference = (column[a] - column[b]) * sign;
      if (difference !== 0) return difference < 0;
    }
    return false;
  }

  /** Adds an entry that is not appended to the run. */
  #addToOthers(entry: EntryId): void {
    this.#others ??= this.#createOthers();
    this.#order[entry] = amongOthers;
    this.#score[entry] = this.#first[entry] * this.#firstSign;
    this.#secondScore[entry] = this.#second[entry] * this.#secondSign;
    this.#arrival[entry] = this.#arrivals++;
    this.#others.add(entry);
  }

  /** Created with the first entry, because most orders by time need none. */
  #createOthers(): SortedRuns {
    const entryCount = this.#columns.key.length;
    this.#score = new Float64Array(entryCount);
    this.#secondScore = new Float64Array(entryCount);
    const arrival = new Float64Array(entryCount);
    this.#arrival = arrival;
    return new SortedRuns(
      this.#score,
      this.#secondScore,
      (a, b) => this.#less(a, b) || (!this.#less(b, a) && arrival[a] < arrival[b]),
    );
  }
}
