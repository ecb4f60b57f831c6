import type { EntryId } from "../../core/plugins/index.ts";
import { SortedRuns } from "../../core/sorted-runs.ts";

/** Evictable entries by score, of equals by a second number. */
export interface EntryOrder {
  /** The entry is evictable with this score; also changes the score of an evictable entry. */
  add(entry: EntryId, score: number, tie: number): void;
  isEvictable(entry: EntryId): boolean;
  /** The score of an entry, also after its removal. */
  scoreOf(entry: EntryId): number;
  /** The tie-breaker of an entry. */
  tieOf(entry: EntryId): number;
  /** The entry is not evictable any more. */
  remove(entry: EntryId): void;
  /** The evictable entry with the smallest score. */
  first(): EntryId | undefined;
}

/** A heap of sorted runs. */
export class ScoreHeap implements EntryOrder {
  // By entry.
  readonly #score: Float64Array;
  readonly #tie: Float64Array;
  readonly #runs: SortedRuns;

  constructor(entryCount: number) {
    const score = new Float64Array(entryCount);
    const tie = new Float64Array(entryCount);
    this.#score = score;
    this.#tie = tie;
    this.#runs = new SortedRuns(score, tie);
  }

  add(entry: EntryId, score: number, tie: number): void {
    if (this.#runs.has(entry)) this.#runs.remove(entry);
    this.#score[entry] = score;
    this.#tie[entry] = tie;
    this.#runs.add(entry);
  }

  isEvictable(entry: EntryId): boolean {
    return this.#runs.has(entry);
  }

  scoreOf(entry: EntryId): number {
    return this.#score[entry];
  }

  tieOf(entry: EntryId): number {
    return this.#tie[entry];
  }

  remove(entry: EntryId): void {
    if (this.#runs.has(entry)) this.#runs.remove(entry);
  }

  first(): EntryId | undefined {
    return this.#runs.first;
  }
}
