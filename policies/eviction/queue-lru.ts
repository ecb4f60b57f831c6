import { grown } from "../../core/grown.ts";
import type { EntryId, EvictionContext, EvictionPlugin, EvictionPolicy } from "../../core/plugins/index.ts";
import { EntryHeap } from "./entry-heap.ts";
import { ScoreHeap } from "./score-heap.ts";

/**
 * LRU in two levels: entries that end a block of one of the first waiting requests are evicted after all others (Queue-Informed LRU,
 * vLLM issue 48485). Differences: vLLM looks up the cached prefix of each waiting request, while here an entry past a hole counts as
 * well, and a run of blocks counts only if its last block is needed; the number of waiting requests is an option, vLLM's is
 * `max_num_running_reqs`. Where no request waits, as in a replay without a clock, it is LRU.
 */
class QueueLru implements EvictionPolicy {
  readonly #requests: EvictionContext["requests"];
  readonly #columns: EvictionContext["columns"];
  readonly #most: number;
  /** By entry: its number in the order in which entries became evictable. */
  readonly #order: Float64Array;
  /** Evictable entries, least recently used first; those that were found to be needed by a waiting request are in `#needed`. */
  readonly #others: ScoreHeap;
  readonly #needed: EntryHeap;
  /** By content id: number of the queue's state in which a waiting request needed it last. */
  #neededIn = new Uint32Array(1 << 10);
  #state = 0;
  #queueVersion = -1;
  #added = 0;

  constructor({ requests, columns, options }: EvictionContext) {
    this.#requests = requests;
    this.#columns = columns;
    this.#most = options.requests;
    const entries = columns.key.length;
    const order = new Float64Array(entries);
    const { lastAccess } = columns;
    const isOlder = (a: EntryId, b: EntryId) =>
      lastAccess[a] === lastAccess[b] ? order[a] < order[b] : lastAccess[a] < lastAccess[b];
    this.#order = order;
    this.#others = new ScoreHeap(entries);
    this.#needed = new EntryHeap(entries, isOlder);
  }

  add(entry: EntryId): void {
    this.#order[entry] = this.#added++;
    this.#addToOthers(entry);
  }

  remove(entry: EntryId): void {
    (this.#needed.has(entry) ? this.#needed : this.#others).remove(entry);
  }

  victim(): EntryId | undefined {
    this.#readQueue();
    const others = this.#others;
    for (let first = others.first(); first !== undefined && this.#isNeeded(first); first = others.first()) {
      others.remove(first);
      this.#needed.add(first);
    }
    return others.first() ?? this.#needed.first;
  }

  #addToOthers(entry: EntryId): void {
    this.#others.add(entry, this.#columns.lastAccess[entry], this.#order[entry]);
  }

  #isNeeded(entry: EntryId): boolean {
    return this.#neededIn[this.#columns.key[entry]] === this.#state;
  }

  /** Marks the contents that the first waiting requests need, if the queue has changed since the last call. */
  #readQueue(): void {
    if (this.#queueVersion === this.#requests.queueVersion) return;
    this.#queueVersion = this.#requests.queueVersion;
    this.#state++;
    let count = 0;
    for (const { keys, keyStart, promptBlocks } of this.#requests.waiting()) {
      if (++count > this.#most) break;
      for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#need(keys[at]);
    }
    for (const entry of this.#needed.entries()) {
      if (this.#isNeeded(entry)) continue;
      this.#needed.remove(entry);
      this.#addToOthers(entry);
    }
  }

  #need(key: number): void {
    if (key >= this.#neededIn.length) this.#neededIn = grown(this.#neededIn, 2 * key);
    this.#neededIn[key] = this.#state;
  }
}

export const queueLru: EvictionPlugin = {
  name: "queue-lru",
  about: "evicts the least recently used entry that none of the first waiting requests needs",
  source: "vLLM (issue 48485)",
  onlyByName: true,
  columns: ["lastAccess"],
  options: { requests: { about: "waiting requests from the head of the queue", default: 256, min: 1 } },
  create: (context) => new QueueLru(context),
};
