import { grown } from "../../core/grown.ts";
import type {
  EntryId,
  EvictionContext,
  EvictionPlugin,
  EvictionPolicy,
  RemovalReason,
  RequestView,
} from "../../core/plugins/index.ts";
import { LastUse } from "./last-use.ts";
import { WeightTuning } from "./marconi-tuning.ts";
import { RecencyPlaces } from "./places.ts";
import { ScoreHeap } from "./score-heap.ts";
import { SequenceLengths } from "./sequence-lengths.ts";

/**
 * Evicts the lowest sum of recency and α times the FLOPs that a hit saves per byte of the entry. α is 0 until the first eviction; then
 * the prompts of a window of requests are recorded and replayed with several values, and the one with the most hits is used from
 * then on (Pan et al.: Marconi: Prefix Caching for the Era of Hybrid LLMs, MLSys 2025, arXiv 2411.19379).
 *
 * Marconi is made for models with recurrent layers. Of its parts, these apply to caches of attention blocks:
 *
 *   FLOPs per byte   a hit on a sequence of L tokens saves 1 + L / c times as much per byte as one on a short sequence, c a constant of the
 *                    model, so that the term is L as a share of the longest prompt. L is the longest sequence that used the entry: the
 *                    blocks of one sequence have equal terms, or its first blocks would be evicted before its last ones
 *   recency          the last use, in requests, as a share of the requests before the first eviction, which the entries then in the
 *                    cache were used in. The paper scales both terms by their range in the cache at each eviction, which would
 *                    change the order of all entries
 *   admission        Marconi stores recurrent states only at the last token of a sequence and where sequences branch. Blocks before a
 *                    stored state must be stored as well, so that with the states of last tokens (`last-states=1`) every block is
 *                    stored. With `last-states=0` a request's blocks are stored up to the last one that an earlier request
 *                    had: the point at which it branches off
 *
 * Other differences: the replay of the window begins with an empty cache, in which any block may be evicted. Of
 * equals the least recently used entry is evicted.
 */
class Marconi implements EvictionPolicy {
  readonly #options: EvictionContext["options"];
  readonly #capacityBlocks: number;
  readonly #heap: ScoreHeap;
  readonly #places: RecencyPlaces;
  /** Time is the number of the latest request. */
  readonly #lastUse: LastUse;
  /** By entry: the latest request at its last use. */
  readonly #usedAt: Float64Array;
  readonly #lengths: SequenceLengths;
  /** By content id: the first request that had it, plus 1; 0: none. Kept for `last-states=0` only. */
  #firstUser = new Uint32Array(1 << 10);
  #longestPrompt = 1;
  /** Requests before the first eviction. */
  #recency = 1;
  /** Bonus of an entry in requests for each token of its sequence. */
  #bonus = 0;
  #tuning: WeightTuning | undefined;
  #tuningEnds = Number.POSITIVE_INFINITY;
  #lastRecorded = -1;
  #wasFull = false;

  constructor(context: EvictionContext) {
    const { columns, capacityBlocks, options } = context;
    const entryCount = columns.key.length;
    this.#options = options;
    this.#capacityBlocks = capacityBlocks ?? 0;
    this.#heap = new ScoreHeap(entryCount);
    this.#places = new RecencyPlaces(context);
    this.#lastUse = new LastUse(columns.lastAccess);
    this.#usedAt = new Float64Array(entryCount);
    this.#lengths = new SequenceLengths(columns);
  }

  begin(request: RequestView): void {
    const { id, inputTokens, keys, keyStart, promptBlocks } = request;
    this.#lengths.begin(request);
    this.#lastUse.now = Math.max(this.#lastUse.now, id);
    if (!this.#wasFull) this.#longestPrompt = Math.max(this.#longestPrompt, inputTokens);
    if (this.#tuning !== undefined && id > this.#lastRecorded) {
      if (id > this.#tuningEnds) {
        this.#useWeight(this.#tuning.best());
      } else if (promptBlocks > 0) {
        this.#tuning.record(keys.subarray(keyStart, keyStart + promptBlocks), inputTokens);
        this.#lastRecorded = id;
      }
    }
    if (this.#options["last-states"] === 0)
      for (let at = keyStart; at < keyStart + promptBlocks; at++) this.#seen(keys[at], id);
  }

  admits({ id, keys, keyStart }: RequestView, from: number, to: number): number {
    if (this.#options["last-states"] !== 0) return to;
    for (let i = from; i < to; i++) {
      const user = this.#firstUser[keys[keyStart + i]] ?? 0;
      if (user === 0 || user === id + 1) return i;
    }
    return to;
  }

  published(entry: EntryId, request: RequestView): void {
    this.#lengths.published(entry, request);
    this.#lastUse.used(entry);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.#lengths.hit(entry, request);
    this.#lastUse.used(entry);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#lastUse.split(lower, upper);
    this.#lengths.split(lower, upper);
    this.#usedAt[upper] = this.#usedAt[lower];
  }

  add(entry: EntryId): void {
    this.#usedAt[entry] = this.#lastUse.becameEvictable(entry);
    this.#heap.add(entry, this.#score(entry), this.#places.released(entry));
  }

  remove(entry: EntryId, why: RemovalReason): void {
    this.#heap.remove(entry);
    if (why === "evicted" && !this.#wasFull) this.#firstEviction();
  }

  victim(): EntryId | undefined {
    return this.#heap.first();
  }

  #score(entry: EntryId): number {
    return this.#usedAt[entry] + this.#bonus * this.#lengths.of(entry);
  }

  #firstEviction(): void {
    this.#wasFull = true;
    const { alpha, bootstrap } = this.#options;
    const now = this.#lastUse.now;
    this.#recency = Math.max(1, now);
    if (alpha >= 0) {
      this.#useWeight(alpha);
      return;
    }
    this.#tuning = new WeightTuning(this.#capacityBlocks, this.#recency / this.#longestPrompt);
    this.#lastRecorded = now;
    this.#tuningEnds = now + bootstrap * this.#recency;
  }

  #useWeight(alpha: number): void {
    this.#tuning = undefined;
    this.#bonus = (alpha * this.#recency) / this.#longestPrompt;
    const heap = this.#heap;
    for (let entry = 0; entry < this.#usedAt.length; entry++)
      if (heap.isEvictable(entry)) heap.add(entry, this.#score(entry), heap.tieOf(entry));
  }

  #seen(key: number, id: number): void {
    if (key >= this.#firstUser.length) this.#firstUser = grown(this.#firstUser, 2 * key);
    if (this.#firstUser[key] === 0) this.#firstUser[key] = id + 1;
  }
}

export const marconi: EvictionPlugin = {
  name: "marconi",
  about: "evicts the lowest sum of recency and a tuned weight times the FLOPs saved per byte",
  source: "Marconi: Pan et al., MLSys 2025",
  onlyByName: true,
  columns: ["depth", "lastAccess"],
  options: {
    alpha: { about: "weight of the FLOPs per byte; -1 = tuned", default: -1, min: -1, fraction: true },
    bootstrap: {
      about: "length of the window for tuning, as a multiple of the requests before the first eviction",
      default: 5,
      min: 1,
    },
    "last-states": {
      about: "0: a request's blocks are stored up to the point at which it branches off from earlier ones; 1: all",
      default: 1,
      max: 1,
    },
  },
  create: (context) => new Marconi(context),
};
