import { byScore } from "../../core/plugins/by-score.ts";
import type {
  EntryId,
  EvictionContext,
  EvictionPlugin,
  EvictionPolicy,
  RemovalReason,
  RequestView,
} from "../../core/plugins/index.ts";
import { FrequencySketch } from "./frequency-sketch.ts";

const leastRecentlyUsed = byScore("lastAccess");

/**
 * LRU with admission: once the cache has been full, a block is stored only if it was requested more often than the entry that would be
 * evicted next, by a frequency sketch of all requested blocks (TinyLFU, Einziger, Friedman, Manes, ACM ToS 2017). Differences: a block is
 * computed in a block of the cache before it is stored or refused, so an eviction may precede a refusal; without an evictable entry
 * every block is stored; an entry of several blocks has the frequency of its last one; refused requests and admissions after a
 * preemption count as well.
 */
class TinyLfu implements EvictionPolicy {
  readonly #order: EvictionPolicy;
  readonly #columns: EvictionContext["columns"];
  readonly #sketch: FrequencySketch;
  #wasFull = false;

  constructor(context: EvictionContext) {
    this.#order = leastRecentlyUsed.create(context);
    this.#columns = context.columns;
    this.#sketch = new FrequencySketch(context.capacityBlocks ?? 0);
  }

  begin({ keys, keyStart, promptBlocks }: RequestView): void {
    for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#sketch.add(keys[at]);
  }

  admits({ keys, keyStart }: RequestView, from: number, to: number): number {
    const victim = this.#wasFull ? this.#order.victim(0) : undefined;
    if (victim === undefined) return to;
    const rival = this.#sketch.estimate(this.#columns.key[victim]);
    for (let i = from; i < to; i++) if (this.#sketch.estimate(keys[keyStart + i]) <= rival) return i;
    return to;
  }

  published(entry: EntryId, request: RequestView): void {
    this.#order.published?.(entry, request);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#order.split?.(lower, upper);
  }

  add(entry: EntryId): void {
    this.#order.add(entry);
  }

  remove(entry: EntryId, why: RemovalReason): void {
    if (why === "evicted") this.#wasFull = true;
    this.#order.remove(entry, why);
  }

  victim(): EntryId | undefined {
    return this.#order.victim(0);
  }
}

export const tinylfu: EvictionPlugin = {
  name: "tinylfu",
  about: "LRU that stores a block only if it was requested more often than the block that would be evicted for it",
  source: "Einziger, Friedman, Manes: TinyLFU (ACM ToS 2017)",
  onlyByName: true,
  columns: leastRecentlyUsed.columns,
  create: (context) => new TinyLfu(context),
};
