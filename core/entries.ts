import type { EntryId } from "./plugins.ts";

/**
 * Attention work grows with what precedes a token: this many context tokens cost as much as one token's matrix
 * products. 2 · 8.03e9 FLOP a token against 4 · 32 layers · 32 heads · 128 dimensions FLOP a token and context token:
 * Llama-3.1-8B, from its config.json.
 */
const contextTokensPerToken = (2 * 8.03e9) / (4 * 32 * 32 * 128);

/**
 * What the cache knows of each entry, one typed array a fact, indexed by entry. Policies read them, only the cache
 * writes. Times are ticks: a counter that every operation of the cache advances, so that all entries of one operation
 * share a tick and no order depends on a clock.
 */
export class EntryColumns {
  /** Tick at which a request that used it last let it go. */
  lastAccess: Uint32Array;
  /** Tick at which it was inserted. */
  createdAt: Uint32Array;
  /** Requests that matched it since it was inserted. */
  accessCount: Uint32Array;
  /** Of entries of one tick, the smaller goes first; set by the rule `free-order` alone. */
  releaseOrder: Int32Array;
  /** Its end, in tokens from the start of the prompt. */
  depth: Uint32Array;
  /** Its length in tokens. */
  tokens: Uint32Array;
  /** Content id of the prefix that ends with it; the same content has the same key, also after an eviction. */
  key: Uint32Array;
  #recomputeCost: Float64Array | undefined;

  constructor(entryCount: number) {
    this.lastAccess = new Uint32Array(entryCount);
    this.createdAt = new Uint32Array(entryCount);
    this.accessCount = new Uint32Array(entryCount);
    this.releaseOrder = new Int32Array(entryCount);
    this.depth = new Uint32Array(entryCount);
    this.tokens = new Uint32Array(entryCount);
    this.key = new Uint32Array(entryCount);
  }

  /** Work to compute it again, in tokens' worth of matrix products: its tokens and their attention to what precedes. */
  get recomputeCost(): Float64Array {
    if (!this.#recomputeCost) {
      this.#recomputeCost = new Float64Array(this.depth.length);
      for (let entry = 0; entry < this.depth.length; entry++) this.#price(entry, this.#recomputeCost);
    }
    return this.#recomputeCost;
  }

  /** Depth or length of the entry has changed. */
  measured(entry: EntryId): void {
    if (this.#recomputeCost) this.#price(entry, this.#recomputeCost);
  }

  /** Bytes per entry of all columns there are. */
  get bytesPerEntry(): number {
    return 7 * 4 + (this.#recomputeCost ? 8 : 0);
  }

  #price(entry: EntryId, cost: Float64Array): void {
    const tokens = this.tokens[entry];
    const meanContext = this.depth[entry] - tokens / 2;
    cost[entry] = tokens * (1 + meanContext / contextTokensPerToken);
  }

  /** Room for more entries; arrays that somebody took before are stale. */
  grow(entryCount: number): void {
    const larger = <T extends Uint32Array | Int32Array | Float64Array>(column: T, into: T): T => {
      into.set(column);
      return into;
    };
    this.lastAccess = larger(this.lastAccess, new Uint32Array(entryCount));
    this.createdAt = larger(this.createdAt, new Uint32Array(entryCount));
    this.accessCount = larger(this.accessCount, new Uint32Array(entryCount));
    this.releaseOrder = larger(this.releaseOrder, new Int32Array(entryCount));
    this.depth = larger(this.depth, new Uint32Array(entryCount));
    this.tokens = larger(this.tokens, new Uint32Array(entryCount));
    this.key = larger(this.key, new Uint32Array(entryCount));
    this.#recomputeCost = undefined;
  }
}
