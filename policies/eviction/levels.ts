import { InputError, InvariantError } from "../../core/errors.ts";
import type { EntryId } from "../../core/plugins/index.ts";
import { SortedRuns } from "../../core/sorted-runs.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { EntryHeap } from "./entry-heap.ts";

/** TensorRT-LLM's highest priority (the lowest is 0), and the priority of a block without one. */
export const highestPriority = 100;
export const defaultPriority = 35;

export interface LevelOptions {
  /** Level of an entry that no request gave a level. */
  readonly initial: number;
  /** Level of an entry after its duration has expired. */
  readonly expired: number;
  /** Position of an expired entry in level `expired`: after the entries that are in it, or the position that it had. */
  readonly expiredPlace: "end" | "own";
}

const never = Number.POSITIVE_INFINITY;

/**
 * One queue per level; the victim is the first entry of the lowest non-empty level. An entry may have its level for a
 * duration only; after that it is in level `expired`.
 *
 *   order     all entries, by their level at the latest `now`
 *   pending   entries whose duration has not expired at the latest `now`, the next to expire first
 *   lapsed    entries whose duration has expired: `order` has them in level `expired`; a smaller `now` moves them back
 *
 * So `victim(now)` has no side effects: it depends on the added entries and on `now` alone. Each entry is in `order` and
 * in at most one of the other heaps, so each operation is O(log n).
 */
export class Levels {
  readonly #options: LevelOptions;
  // By entry: level and duration that the requests gave it.
  readonly #level: Uint8Array;
  readonly #durationNs: Float64Array;
  // By queued entry: expiry time, own sort key and arrival number, and the level and sort key at the latest `now`.
  readonly #expiresNs: Float64Array;
  readonly #ownPlace: Float64Array;
  readonly #arrival: Float64Array;
  readonly #levelNow: Float64Array;
  readonly #placeNow: Float64Array;
  readonly #order: SortedRuns;
  readonly #pending: EntryHeap;
  readonly #lapsed: EntryHeap;
  #arrivals = 0;
  #frontArrivals = 0;
  #lastPlace = 0;

  constructor(entryCount: number, options: LevelOptions) {
    this.#options = options;
    this.#level = new Uint8Array(entryCount).fill(options.initial);
    this.#durationNs = new Float64Array(entryCount);
    this.#expiresNs = new Float64Array(entryCount);
    this.#ownPlace = new Float64Array(entryCount);
    this.#arrival = new Float64Array(entryCount);
    this.#levelNow = new Float64Array(entryCount);
    this.#placeNow = new Float64Array(entryCount);
    this.#order = new SortedRuns(this.#levelNow, this.#placeNow, (a, b) => this.#precedesEqual(a, b));
    this.#pending = new EntryHeap(entryCount, (a, b) => this.#expiresFirst(a, b));
    this.#lapsed = new EntryHeap(entryCount, (a, b) => this.#expiresFirst(b, a));
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
   * Removes the entry from its queue, if it is in one, and sets the level (undefined: unchanged) and the duration (0:
   * unlimited) that it has when it is added again.
   */
  setLevel(entry: EntryId, level: number | undefined, durationNs: Nanos): void {
    if (this.has(entry)) this.remove(entry);
    if (level !== undefined) this.#level[entry] = level;
    this.#durationNs[entry] = durationNs;
  }

  /** Within a level entries are ordered by `place`, then by arrival; the duration begins at `sinceNs`. */
  add(entry: EntryId, sinceNs: Nanos, place = 0): void {
    this.#lastPlace = Math.max(this.#lastPlace, place);
    this.#add(entry, sinceNs, place, this.#arrivals++);
  }

  /** Adds the entry before all others of its level. */
  addToFront(entry: EntryId, sinceNs: Nanos): void {
    this.#add(entry, sinceNs, Number.NEGATIVE_INFINITY, --this.#frontArrivals);
  }

  remove(entry: EntryId): void {
    this.#order.remove(entry);
    if (this.#pending.has(entry)) this.#pending.remove(entry);
    else if (this.#lapsed.has(entry)) this.#lapsed.remove(entry);
  }

  /** The first entry of the lowest non-empty level at time `now`. */
  victim(now: Nanos): EntryId | undefined {
    this.#advance(now);
    return this.#order.first;
  }

  /** Makes expiry up to `now` permanent: expired entries have level `expired` from now on, also after their next use. */
  refresh(now: Nanos): void {
    this.#advance(now);
    const expired: EntryId[] = [];
    for (let entry = this.#lapsed.first; entry !== undefined; entry = this.#lapsed.first) {
      this.#lapsed.remove(entry);
      expired.push(entry);
    }
    for (const entry of expired.reverse()) {
      const place = this.#options.expiredPlace === "end" ? this.#lastPlace : this.#ownPlace[entry];
      this.#order.remove(entry);
      this.setLevel(entry, this.#options.expired, 0);
      this.#add(entry, now, place, this.#arrivals++);
    }
  }

  #add(entry: EntryId, sinceNs: Nanos, place: number, arrival: number): void {
    if (this.has(entry)) throw new InvariantError(`entry ${entry} is in a queue already`);
    const neverExpires = this.#durationNs[entry] === 0 || this.#level[entry] === this.#options.expired;
    this.#expiresNs[entry] = neverExpires ? never : sinceNs + this.#durationNs[entry];
    this.#ownPlace[entry] = place;
    this.#arrival[entry] = arrival;
    this.#putAt(entry, this.#level[entry], place);
    if (!neverExpires) this.#pending.add(entry);
  }

  #putAt(entry: EntryId, level: number, place: number): void {
    this.#levelNow[entry] = level;
    this.#placeNow[entry] = place;
    this.#order.add(entry);
  }

  /** Moves entries between their own level and level `expired` according to `now`. */
  #advance(now: Nanos): void {
    const { expired, expiredPlace } = this.#options;
    for (let entry = this.#pending.first; entry !== undefined; entry = this.#pending.first) {
      if (this.#expiresNs[entry] > now) break;
      this.#pending.remove(entry);
      this.#order.remove(entry);
      this.#putAt(entry, expired, expiredPlace === "end" ? never : this.#ownPlace[entry]);
      this.#lapsed.add(entry);
    }
    for (let entry = this.#lapsed.first; entry !== undefined; entry = this.#lapsed.first) {
      if (this.#expiresNs[entry] <= now) break;
      this.#lapsed.remove(entry);
      this.#order.remove(entry);
      this.#putAt(entry, this.#level[entry], this.#ownPlace[entry]);
      this.#pending.add(entry);
    }
  }

  /** The order of two entries at the same place of a level. */
  #precedesEqual(a: EntryId, b: EntryId): boolean {
    // Entries at the end are in the order of their expiry.
    return this.#placeNow[a] === never ? this.#expiresFirst(a, b) : this.#arrival[a] < this.#arrival[b];
  }

  #expiresFirst(a: EntryId, b: EntryId): boolean {
    if (this.#expiresNs[a] !== this.#expiresNs[b]) return this.#expiresNs[a] < this.#expiresNs[b];
    return this.#arrival[a] < this.#arrival[b];
  }
}

/** Priority of tokens `[start, end)` of a prompt (no `end`: to its end), for `duration` (undefined: unlimited). */
export interface RetentionRange {
  readonly start: number;
  readonly end?: number | undefined;
  readonly priority: number;
  readonly duration?: number | undefined;
}

/**
 * The priority of each block of a prompt: that of the range that contains its first token; undefined if no range does
 * (TensorRT-LLM, KvCacheRetentionConfig).
 *
 * @throws InputError if ranges overlap or are empty, or a priority is out of range.
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
  const name = `retention range ${start} to ${end ?? "the end"}`;
  if (!(start >= 0)) throw new InputError(`${name} starts before the first token`);
  if (end !== undefined && end <= start) throw new InputError(`${name} has no tokens`);
  if (next !== undefined && next.start < (end ?? never))
    throw new InputError(`${name} overlaps the one that starts at ${next.start}`);
  if (!(Number.isInteger(priority) && priority >= 0 && priority <= highestPriority))
    throw new InputError(`${name} has priority ${priority}, expected an integer from 0 to ${highestPriority}`);
}
