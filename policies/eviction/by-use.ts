import type { EntryId, EvictionContext, EvictionPolicy, RequestView } from "../../core/plugins/index.ts";
import { RecencyPlaces } from "./places.ts";
import { type EntryOrder, ScoreHeap } from "./score-heap.ts";

/**
 * Base of policies whose victim is the entry with the smallest score, of equals the least recently used. Unlike `byScore`, it has
 * callbacks for uses and evictions. Columns: those of `columnsOfRecency` and of the score.
 */
export abstract class ByUse implements EvictionPolicy {
  readonly #order: EntryOrder;
  readonly #uses: RecencyPlaces;

  constructor(context: EvictionContext, order: EntryOrder = new ScoreHeap(context.columns.key.length)) {
    this.#order = order;
    this.#uses = new RecencyPlaces(context);
  }

  /** The score of an entry, computed when it becomes evictable and when its length changes. */
  protected abstract score(entry: EntryId): number;

  published?(entry: EntryId, request: RequestView): void;
  hit?(entry: EntryId, request: RequestView): void;
  /** The entry, whose score was this, is evicted. */
  protected evicted?(entry: EntryId, score: number): void;

  add(entry: EntryId): void {
    this.#order.add(entry, this.score(entry), this.#uses.released(entry));
  }

  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void {
    if (why === "evicted") this.evicted?.(entry, this.#order.scoreOf(entry));
    this.#order.remove(entry);
  }

  addMany(entries: Int32Array, count: number): void {
    const order = this.#order;
    const uses = this.#uses;
    for (let i = 0; i < count; i++) {
      const entry = entries[i];
      order.add(entry, this.score(entry), uses.released(entry));
    }
  }

  takeMany(into: Int32Array, from: number, to: number): number {
    const order = this.#order;
    for (let at = from | 0; at < to; at++) {
      const victim = order.first();
      if (victim === undefined) return at;
      this.evicted?.(victim, order.scoreOf(victim));
      order.remove(victim);
      into[at] = victim;
    }
    return to;
  }

  victim(): EntryId | undefined {
    return this.#order.first();
  }

  /** Subclasses copy their state to `upper` before. */
  split(lower: EntryId, _upper: EntryId): void {
    if (this.#order.isEvictable(lower)) this.#order.add(lower, this.score(lower), this.#order.tieOf(lower));
  }
}
