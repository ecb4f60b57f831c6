import {
  byScore,
  type EntryId,
  type EvictionContext,
  type EvictionPlugin,
  type EvictionPolicy,
  type RequestView,
} from "kvlab";

/**
 * Two queues, after 2Q (Johnson and Shasha 1994): what is new is on probation, first in, first out, however often it is
 * used there; what comes back soon after it has gone is kept, least recently used first.
 *
 * A ghost list: it remembers content that is gone by `columns.key`, which is the same whenever and wherever that content
 * is stored. To keep the list short would take a second list; here it grows with the different contents of a trace.
 */
class ComesBack implements EvictionPolicy {
  readonly #key: Uint32Array;
  readonly #probation: EvictionPolicy;
  readonly #kept: EvictionPolicy;
  /** 1: the entry is kept; 0: it is on probation. */
  readonly #isKept: Uint8Array;
  /** Entries on probation that may go, and how many may stay. */
  #waiting = 0;
  readonly #mostWaiting: number;
  /** Content that went from probation, with how many had gone before; "soon" is half a cache of them. */
  readonly #wentAt = new Map<number, number>();
  #gone = 0;
  readonly #soon: number;

  constructor(context: EvictionContext) {
    const { columns, capacityBlocks = Number.POSITIVE_INFINITY } = context;
    this.#key = columns.key;
    this.#isKept = new Uint8Array(columns.key.length);
    this.#probation = byScore("createdAt", "releaseOrder").create(context);
    this.#kept = byScore("lastAccess", "releaseOrder").create(context);
    this.#mostWaiting = Math.floor(capacityBlocks / 4);
    this.#soon = Math.floor(capacityBlocks / 2);
  }

  published(entry: EntryId, request: RequestView): void {
    const wentAt = this.#wentAt.get(this.#key[entry]);
    this.#isKept[entry] = wentAt !== undefined && this.#gone - wentAt <= this.#soon ? 1 : 0;
    // The underlying order is notified, too.
    this.#probation.published?.(entry, request);
    this.#kept.published?.(entry, request);
  }

  /** Both halves of a run are where the whole was. */
  split(lower: EntryId, upper: EntryId): void {
    this.#isKept[upper] = this.#isKept[lower];
    this.#orderOf(lower).split?.(lower, upper);
  }

  add(entry: EntryId): void {
    if (this.#isKept[entry] === 0) this.#waiting++;
    this.#orderOf(entry).add(entry);
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    this.#orderOf(entry).remove(entry, why);
    if (this.#isKept[entry] === 1) return;
    this.#waiting--;
    if (why === "evicted") this.#wentAt.set(this.#key[entry], this.#gone++);
  }

  victim(now: number): EntryId | undefined {
    const first = this.#probation.victim(now);
    if (this.#waiting > this.#mostWaiting) return first;
    return this.#kept.victim(now) ?? first;
  }

  #orderOf(entry: EntryId): EvictionPolicy {
    return this.#isKept[entry] === 1 ? this.#kept : this.#probation;
  }
}

const comesBack: EvictionPlugin = {
  name: "comes-back",
  about: "what comes back soon after it went is kept by recency; the rest is first in, first out",
  source: "2Q: Johnson and Shasha 1994",
  columns: ["createdAt", "lastAccess", "releaseOrder"],
  create: (context) => new ComesBack(context),
};

export default comesBack;
