import type { EntryId, EvictionContext } from "../../core/plugins/index.ts";

/** More entries than one operation inserts or releases. */
const mostEntries = 2 ** 22;

/**
 * Places in the order of insertion, for `EntryLists`: an entry is after all earlier ones; entries of one insertion are in release
 * order (rule `free-order`). The column `createdAt` must be declared.
 */
export class InsertionPlaces {
  readonly #createdAt: Uint32Array;
  readonly #forward: boolean;
  /** Tick of the latest insertion, and the place of its next entry. */
  #tick = -1;
  #place = 0;
  /** The largest place so far. */
  #last = 0;

  constructor({ columns }: EvictionContext) {
    this.#createdAt = columns.createdAt;
    this.#forward = columns.forward;
  }

  /** The place of a new entry. `published` is called in the order of the prompt. */
  inserted(entry: EntryId): number {
    const tick = this.#createdAt[entry];
    if (this.#forward) return this.end();
    if (tick !== this.#tick) {
      this.#tick = tick;
      this.#place = this.#last += mostEntries;
    }
    return this.#place--;
  }

  /** A place after all others, for an entry that is moved to the end. */
  end(): number {
    this.#tick = -1;
    return ++this.#last;
  }
}

/**
 * Places in the order of the last use, for `EntryLists`: the order in which entries are released. Where only leaves are evictable
 * (`columnsOfRecency`), an entry that becomes evictable after its release has the place of its last use.
 */
export class RecencyPlaces {
  readonly #lastAccess: Uint32Array | undefined;
  #latestTick = 0;
  /** The largest place so far. A place is a multiple of `mostEntries` for each tick, plus a number within the tick. */
  #last = 0;

  constructor({ columns, rules }: EvictionContext) {
    this.#lastAccess = rules.victims === "any" ? undefined : columns.lastAccess;
  }

  /** The place of an entry that became evictable. */
  released(entry: EntryId): number {
    if (this.#lastAccess === undefined) return this.end();
    const tick = this.#lastAccess[entry];
    if (tick < this.#latestTick) return (tick + 1) * mostEntries - 1;
    if (tick > this.#latestTick) {
      this.#latestTick = tick;
      this.#last = Math.max(this.#last, tick * mostEntries);
    }
    return this.end();
  }

  /** A place after all others: the entry is used now. */
  end(): number {
    return ++this.#last;
  }
}

/** Columns that `RecencyPlaces` reads. */
export const columnsOfRecency = ({ victims }: EvictionContext["rules"]): "lastAccess"[] =>
  victims === "any" ? [] : ["lastAccess"];
