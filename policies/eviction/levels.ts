import { assert, InputError } from "../../core/errors.ts";
import type { EntryId } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { EntryHeap } from "./entry-heap.ts";

/** TensorRT-LLM's range of priorities, and what a block has that nothing is said of. */
export const highestPriority = 100;
export const defaultPriority = 35;

export interface LevelOptions {
  /** Level of an entry that nothing was said of. */
  readonly initial: number;
  /** Level of an entry whose duration has run out ... */
  readonly expired: number;
  /** ... and its place there: behind all that are there already, or the place that it had. */
  readonly expiredPlace: "end" | "own";
}

const never = Number.POSITIVE_INFINITY;

/**
 * Queues of levels: the first of the lowest level that has any goes first. An entry may have its level for a duration
 * only; then it goes over to level `expired`.
 *
 *   pending   entries whose duration runs out, the next one first
 *   passed    of these, where it has: they are in `order` as expired, and come back if somebody asks about an earlier time
 *
 * So `victim` is a function of what was added and of `now`: whoever looks ahead changes nothing. Each entry is in `order`
 * and in at most one of the other heaps: O(log n) for each operation.
 */
export class Levels {
  readonly #options: LevelOptions;
  // By entry: what was said of it.
  readonly #level: Uint8Array;
  readonly #durationNs: Float64Array;
  // By entry that is in a queue: when it expires, its own place and number of arrival, and where it is now.
  readonly #expiresNs: Float64Array;
  readonly #ownPlace: Float64Array;
  readonly #arrival: Float64Array;
  readonly #levelNow: Uint8Array;
  readonly #placeNow: Float64Array;
  readonly #order: EntryHeap;
  readonly #pending: EntryHeap;
  readonly #passed: EntryHeap;
  #arrivals = 0;
  #fronts = 0;
  #lastPlace = 0;

  constructor(entryCount: number, options: LevelOptions) {
    this.#options = options;
    this.#level = new Uint8Array(entryCount).fill(options.initial);
    this.#durationNs = new Float64Array(entryCount);
    this.#expiresNs = new Float64Array(entryCount);
    this.#ownPlace = new Float64Array(entryCount);
    this.#arrival = new Float64Array(entryCount);
    this.#levelNow = new Uint8Array(entryCount);
    this.#placeNow = new Float64Array(entryCount);
    this.#order = new EntryHeap(entryCount, (a, b) => this.#goesFirst(a, b));
    this.#pending = new EntryHeap(entryCount, (a, b) => this.#expiresFirst(a, b));
    this.#passed = new EntryHeap(entryCount, (a, b) => this.#expiresFirst(b, a));
  }

  /** Entries in the queues. */
  get count(): number {
    return this.#order.count;
  }

  has(entry: EntryId): boolean {
    return this.#order.has(entry);
  }

  levelOf(entry: EntryId): number {
    return this.#level[entry];
  }

  durationOf(entry: EntryId): Nanos {
    return this.#durationNs[entry];
  }

  /**
   * Takes the entry out, if it is in a queue, and says what it will be when it comes back: its level (undefined: as
   * before) and for how long (0: for ever).
   */
  claim(entry: EntryId, level: number | undefined, durationNs: Nanos): void {
    if (this.has(entry)) this.remove(entry);
    if (level !== undefined) this.#level[entry] = level;
    this.#durationNs[entry] = durationNs;
  }

  /** Of its level the smallest `place` goes first, of equals who came first; its duration begins at `sinceNs`. */
  add(entry: EntryId, sinceNs: Nanos, place = 0): void {
    this.#lastPlace = Math.max(this.#lastPlace, place);
    this.#add(entry, sinceNs, place, this.#arrivals++);
  }

  /** Before all others of its level. */
  addToFront(entry: EntryId, sinceNs: Nanos): void {
    this.#add(entry, sinceNs, Number.NEGATIVE_INFINITY, --this.#fronts);
  }

  remove(entry: EntryId): void {
    this.#order.remove(entry);
    if (this.#pending.has(entry)) this.#pending.remove(entry);
    else if (this.#passed.has(entry)) this.#passed.remove(entry);
  }

  /** Who goes first at this time. */
  victim(now: Nanos): EntryId | undefined {
    this.#goTo(now);
    return this.#order.first;
  }

  /** It is `now`: whose duration has run out is of level `expired` from here on, also when it is used again. */
  refresh(now: Nanos): void {
    this.#goTo(now);
    const expired: EntryId[] = [];
    for (let entry = this.#passed.first; entry !== undefined; entry = this.#passed.first) {
      this.#passed.remove(entry);
      expired.push(entry);
    }
    for (const entry of expired.reverse()) {
      const place = this.#options.expiredPlace === "end" ? this.#lastPlace : this.#ownPlace[entry];
      this.#order.remove(entry);
      this.claim(entry, this.#options.expired, 0);
      this.#add(entry, now, place, this.#arrivals++);
    }
  }

  #add(entry: EntryId, sinceNs: Nanos, place: number, arrival: number): void {
    assert(!this.has(entry), `entry ${entry} is in a queue already`);
    const lasts = this.#durationNs[entry] === 0 || this.#level[entry] === this.#options.expired;
    this.#expiresNs[entry] = lasts ? never : sinceNs + this.#durationNs[entry];
    this.#ownPlace[entry] = place;
    this.#arrival[entry] = arrival;
    this.#putAt(entry, this.#level[entry], place);
    if (!lasts) this.#pending.add(entry);
  }

  #putAt(entry: EntryId, level: number, place: number): void {
    this.#levelNow[entry] = level;
    this.#placeNow[entry] = place;
    this.#order.add(entry);
  }

  /** Everything is where it is at this time. */
  #goTo(now: Nanos): void {
    const { expired, expiredPlace } = this.#options;
    for (let entry = this.#pending.first; entry !== undefined; entry = this.#pending.first) {
      if (this.#expiresNs[entry] > now) break;
      this.#pending.remove(entry);
      this.#order.remove(entry);
      this.#putAt(entry, expired, expiredPlace === "end" ? never : this.#ownPlace[entry]);
      this.#passed.add(entry);
    }
    for (let entry = this.#passed.first; entry !== undefined; entry = this.#passed.first) {
      if (this.#expiresNs[entry] <= now) break;
      this.#passed.remove(entry);
      this.#order.remove(entry);
      this.#putAt(entry, this.#level[entry], this.#ownPlace[entry]);
      this.#pending.add(entry);
    }
  }

  #goesFirst(a: EntryId, b: EntryId): boolean {
    if (this.#levelNow[a] !== this.#levelNow[b]) return this.#levelNow[a] < this.#levelNow[b];
    if (this.#placeNow[a] !== this.#placeNow[b]) return this.#placeNow[a] < this.#placeNow[b];
    // Those behind all others are there in the order in which they expired.
    return this.#placeNow[a] === never ? this.#expiresFirst(a, b) : this.#arrival[a] < this.#arrival[b];
  }

  #expiresFirst(a: EntryId, b: EntryId): boolean {
    if (this.#expiresNs[a] !== this.#expiresNs[b]) return this.#expiresNs[a] < this.#expiresNs[b];
    return this.#arrival[a] < this.#arrival[b];
  }
}

/** Tokens `[start, end)` of a prompt, to its end where there is no `end`, are worth so much for so long (undefined: for ever). */
export interface RetentionRange {
  readonly start: number;
  readonly end?: number | undefined;
  readonly priority: number;
  readonly duration?: number | undefined;
}

/**
 * The priority of each block of a prompt: that of the range which its first token is in, undefined if there is none
 * (TensorRT-LLM, KvCacheRetentionConfig).
 *
 * @throws InputError if ranges overlap or are empty, or a priority is none.
 */
export function prioritiesByBlock(
  ranges: readonly RetentionRange[],
  blockTokens: number,
  seqLen: number,
): (number | undefined)[] {
  const sorted = [...ranges].sort((a, b) => a.start - b.start);
  sorted.forEach((range, i) => {
    checkRange(range, sorted[i + 1]);
  });
  const priorities: (number | undefined)[] = [];
  let at = 0;
  for (let token = 0; token < seqLen; token += blockTokens) {
    while (at < sorted.length && token >= (sorted[at].end ?? never)) at++;
    priorities.push(at < sorted.length && token >= sorted[at].start ? sorted[at].priority : undefined);
  }
  return priorities;
}

function checkRange({ start, end, priority }: RetentionRange, next: RetentionRange | undefined): void {
  const said = `retention range ${start} to ${end ?? "the end"}`;
  if (!(start >= 0)) throw new InputError(`${said} starts before the first token`);
  if (end !== undefined && end <= start) throw new InputError(`${said} has no tokens`);
  if (next !== undefined && next.start < (end ?? never))
    throw new InputError(`${said} overlaps the one that starts at ${next.start}`);
  if (!(Number.isInteger(priority) && priority >= 0 && priority <= highestPriority))
    throw new InputError(`${said} has priority ${priority}, expected an integer from 0 to ${highestPriority}`);
}
