import type { Counters } from "./counters.ts";
import { EntryColumns } from "./entries.ts";
import { PolicyError } from "./errors.ts";
import { EventKind, type EventLog } from "./events.ts";
import type { Allocator, BlockId, EntryId, EvictionPolicy, IndexHost, Insertion, PrefixIndex } from "./plugins.ts";
import { type BlockPool, BlockState } from "./pool.ts";
import type { Nanos } from "./trace.ts";

// Module constants, because a property of an imported object costs a load in the innermost loops.
const free = BlockState.free;
const computing = BlockState.computing;
const published = BlockState.published;
const idle = BlockState.idle;

/**
 * What is cached: the facts about every entry. It stands between the index, which says what happens to its entries, and
 * the policy, which orders those that may go, and believes neither blindly.
 */
export class CacheEntries implements IndexHost {
  readonly columns: EntryColumns;
  readonly pool: BlockPool;
  /** Advanced by every operation of the cache; the time that recency and age are measured in. */
  tick = 0;
  now: Nanos = 0;
  request = -1;
  readonly #allocator: Allocator;
  readonly #counters: Counters;
  readonly #blockTokens: number;
  readonly #log: EventLog | undefined;
  #policy!: EvictionPolicy;
  #index!: PrefixIndex;
  #takesMany = false;
  #victims = new Int32Array(256);

  constructor(
    pool: BlockPool,
    allocator: Allocator,
    counters: Counters,
    blockTokens: number,
    freeOrder: "reverse" | "forward",
    log: EventLog | undefined,
  ) {
    this.pool = pool;
    this.columns = new EntryColumns(pool.blockCount, freeOrder);
    this.#allocator = allocator;
    this.#counters = counters;
    this.#blockTokens = blockTokens;
    this.#log = log;
  }

  /** Policy and index are made after the columns that they read. */
  connect(policy: EvictionPolicy, index: PrefixIndex): void {
    this.#policy = policy;
    this.#index = index;
    this.#takesMany = policy.takeMany !== undefined && index.evictMany !== undefined;
  }

  get refCount(): Uint32Array {
    return this.pool.refCount;
  }

  isIdle(block: BlockId): boolean {
    return this.pool.state[block] === idle;
  }

  created(entry: EntryId, depth: number, tokens: number, key: number): void {
    this.columns.created(entry, this.tick, depth, tokens, key);
    this.#policy.published?.(entry);
  }

  createdBlocks(insertion: Insertion, from: number, to: number): void {
    this.columns.createdBlocks(insertion, from, to, this.tick, this.#blockTokens);
    if (this.#policy.published) for (let i = from; i < to; i++) this.#policy.published(insertion.table[i]);
  }

  hit(entry: EntryId): void {
    this.columns.hit(entry);
    this.#policy.hit?.(entry);
  }

  /** Whether anybody wants to know of hits. */
  get countsHits(): boolean {
    return this.columns.countsHits || this.#policy.hit !== undefined;
  }

  touch(entry: EntryId): void {
    this.columns.touched(entry, this.tick);
  }

  evictable(entry: EntryId): void {
    this.#policy.add(entry);
  }

  released(entries: Int32Array, count: number): void {
    this.columns.touchedMany(entries, count, this.tick);
    if (this.#policy.addMany) this.#policy.addMany(entries, count);
    else for (let i = 0; i < count; i++) this.#policy.add(entries[i]);
  }

  blocked(entry: EntryId): void {
    this.#policy.remove(entry, "held");
  }

  dropped(entry: EntryId, wasEvictable: boolean): void {
    if (wasEvictable) this.#policy.remove(entry, "dropped");
    this.#log?.add(EventKind.drop, this.now, this.request, entry, this.columns.key[entry], this.columns.depth[entry]);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.columns.inherited(upper, lower);
    this.#policy.split?.(lower, upper);
  }

  resized(entry: EntryId, depth: number, tokens: number): void {
    this.columns.measured(entry, depth, tokens);
    this.#policy.resized?.(entry);
  }

  forgotten(block: BlockId): void {
    const { pool } = this;
    if (pool.refCount[block] > 0) {
      pool.move(block, published, computing);
      return;
    }
    pool.move(block, idle, free);
    this.#allocator.release(block);
  }

  /** Evicts what the policy names until at least `blocks` are free. */
  makeRoom(blocks: number): void {
    const allocator = this.#allocator;
    const before = allocator.freeBlocks;
    if (before >= blocks) return;
    if (this.#takesMany && this.#log === undefined) this.#evictMany(blocks - before);
    while (allocator.freeBlocks < blocks) {
      const victim = this.#policy.victim(this.now);
      if (victim === undefined || !this.#index.isEvictable(victim)) this.#refuseVictim(victim);
      this.#log?.add(
        EventKind.evict,
        this.now,
        this.request,
        victim,
        this.columns.key[victim],
        this.columns.depth[victim],
      );
      this.#policy.remove(victim, "evicted");
      this.#index.evict(victim, blocks - allocator.freeBlocks);
    }
    this.#counters.evictedBlocks += allocator.freeBlocks - before;
  }

  /** The loop of `makeRoom`, where policy and index can do it in one go. */
  #evictMany(count: number): void {
    if (count > this.#victims.length) this.#victims = new Int32Array(2 * count);
    const victims = this.#victims;
    const taken = this.#policy.takeMany!(count, victims);
    const { state } = this.pool;
    const allocator = this.#allocator;
    for (let i = 0; i < taken; i++) {
      const block = victims[i];
      if (state[block] !== idle) this.#refuseVictim(block);
      state[block] = free;
      allocator.release(block);
    }
    this.#index.evictMany!(victims, taken);
  }

  #refuseVictim(victim: EntryId | undefined): never {
    if (victim === undefined) {
      throw new PolicyError(
        `eviction policy has no victim although ${this.#index.evictableBlocks} blocks are evictable`,
      );
    }
    const known = Number.isInteger(victim) && victim >= 0 && victim < this.pool.blockCount;
    const state = known ? this.pool.state[victim] : free;
    const why = state === published ? "which a request holds" : "which is not in the cache";
    throw new PolicyError(
      `eviction policy named entry ${String(victim)} as victim, ${known ? why : "which does not exist"}`,
    );
  }
}
