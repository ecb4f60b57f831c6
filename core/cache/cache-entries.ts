import { PolicyError } from "../errors.ts";
import { grown } from "../grown.ts";
import type { EventLog } from "../log/event-log.ts";
import type { EntryColumns } from "../plugins/entry-columns.ts";
import type {
  Allocator,
  BlockId,
  EntryId,
  EvictionPolicy,
  IndexHost,
  Insertion,
  LeafIndex,
  PrefixIndex,
  RequestView,
} from "../plugins/index.ts";
import type { Rules } from "../plugins/rules.ts";
import type { Nanos } from "../trace/trace.ts";
import { reuseEvicted } from "./block-loops.ts";
import type { Counters } from "./counters.ts";
import { type BlockPool, BlockState } from "./pool.ts";

// Module constants, because a property of an imported object costs a load in the innermost loops.
const free = BlockState.free;
const computing = BlockState.computing;
const published = BlockState.published;
const idle = BlockState.idle;

/** Stands for the request in operations that no request causes. */
export const operatorRequest: RequestView = {
  id: -1,
  arrivalNs: 0,
  inputTokens: 0,
  maxOutputTokens: 0,
  namespace: 0,
  session: 0,
  category: 0,
  priority: 0,
  retentionNs: 0,
  markedTokens: 0,
  keys: new Uint32Array(0),
  keyStart: 0,
  promptBlocks: 0,
};

/**
 * The cached entries and their columns. Connects the index, which reports changes of its entries, with the policy, which
 * orders the evictable ones, and checks both. Allocates blocks: free ones first, then those of eviction victims.
 */
export class CacheEntries implements IndexHost {
  readonly columns: EntryColumns;
  readonly pool: BlockPool;
  /** By block that an operator has pinned: number of pins. */
  readonly pinned = new Map<BlockId, number>();
  /** Advanced by every operation of the cache; recency and age are measured in ticks. */
  tick = 0;
  now: Nanos = 0;
  /** The request of the operation under way. */
  request!: RequestView;
  readonly #allocator: Allocator;
  readonly #counters: Counters;
  readonly #blockTokens: number;
  readonly #log: EventLog | undefined;
  /** Content of each stored block, for the log. */
  #storedContents: StoredContents | undefined;
  /** Evicted blocks are written to `#table[#at .. #to)`; any more are freed. */
  #table: Int32Array = new Int32Array(0);
  #at = 0;
  #to = 0;
  #policy!: EvictionPolicy;
  #index!: PrefixIndex;
  #evictsMany = false;
  /** Entries that are evicted now have expired. */
  #expiring = false;
  #leaves: LeafIndex | undefined;
  /** Rule `free-queue=single`: free and idle blocks are allocated in the order of their release. */
  readonly #singleQueue: boolean;
  /** With `free-queue=single`: tick of each block's release. */
  #freedAt = new Uint32Array(0);
  readonly #singleBlock = new Int32Array(1);
  readonly #maxEntries: number;
  readonly #maxBlocks: number;

  constructor(
    pool: BlockPool,
    allocator: Allocator,
    counters: Counters,
    blockTokens: number,
    rules: Rules,
    columns: EntryColumns,
    log: EventLog | undefined,
  ) {
    this.pool = pool;
    this.columns = columns;
    this.#singleQueue = rules["free-queue"] === "single";
    this.#maxEntries = limitOf(rules["max-entries"]);
    this.#maxBlocks = limitOf(rules["prefix-blocks"]);
    if (this.#singleQueue) columns.keep("lastAccess");
    this.#allocator = allocator;
    this.#counters = counters;
    this.#blockTokens = blockTokens;
    this.#log = log;
    if (log !== undefined) this.#storedContents = new StoredContents(pool.blockCount);
  }

  /** Called once, because policy and index are created after the columns that they read. */
  connect(policy: EvictionPolicy, index: PrefixIndex): void {
    this.#policy = policy;
    this.#index = index;
    if (this.#singleQueue) this.#freedAt = new Uint32Array(this.pool.blockCount);
    const direct = this.#allocator.unordered === true && this.#log === undefined && !this.#singleQueue;
    if (!direct) return;
    if (policy.takeNext !== undefined) this.#leaves = index.leaves;
    this.#evictsMany = index.evictMany !== undefined;
  }

  isPinned(block: BlockId): boolean {
    return this.pinned.has(block);
  }

  isIdle(block: BlockId): boolean {
    return this.pool.stateOf(block) === idle;
  }

  created(entry: EntryId, depth: number, tokens: number, key: number): void {
    this.columns.created(entry, this.tick, depth, tokens, key);
    this.#policy.published?.(entry, this.request);
  }

  createdBlocks(insertion: Insertion, from: number, to: number): void {
    this.columns.createdBlocks(insertion, from, to, this.tick, this.#blockTokens);
    if (this.#policy.published)
      for (let i = from; i < to; i++) this.#policy.published(insertion.table[i], this.request);
  }

  hit(entry: EntryId): void {
    this.columns.hit(entry);
    this.#policy.hit?.(entry, this.request);
  }

  get countsHits(): boolean {
    return this.columns.countsHits || this.#policy.hit !== undefined;
  }

  touch(entry: EntryId): void {
    this.columns.touched(entry, this.tick);
  }

  evictable(entry: EntryId): void {
    this.#policy.add(entry);
  }

  touchMany(entries: Int32Array, count: number): void {
    this.columns.touchedMany(entries, count, this.tick);
  }

  released(entries: Int32Array, count: number): void {
    this.columns.touchedMany(entries, count, this.tick);
    if (this.#policy.addMany) this.#policy.addMany(entries, count);
    else for (let i = 0; i < count; i++) this.#policy.add(entries[i]);
  }

  blocked(entry: EntryId): void {
    this.#policy.remove(entry, "referenced");
  }

  dropped(entry: EntryId, wasEvictable: boolean): void {
    if (wasEvictable) this.#policy.remove(entry, "dropped");
  }

  split(lower: EntryId, upper: EntryId, depth: number, tokens: number): void {
    this.columns.inherited(upper, lower);
    this.columns.setExtent(lower, depth, tokens);
    this.#policy.split?.(lower, upper);
  }

  resized(entry: EntryId, depth: number, tokens: number, key: number): void {
    this.columns.key[entry] = key;
    this.columns.setExtent(entry, depth, tokens);
    this.#policy.resized?.(entry);
  }

  /** Content of a block that the index has stored; called only with a log. */
  stored(block: BlockId, key: number, end: number): void {
    this.#storedContents!.key[block] = key;
    this.#storedContents!.end[block] = end;
  }

  evicted(blocks: Int32Array, count: number): void {
    if (this.#log !== undefined) for (let i = 0; i < count; i++) this.#logEviction(blocks[i], this.#log);
    if (this.#expiring) this.#counters.expiredBlocks += count;
    else this.#counters.evictedBlocks += count;
    const taken = Math.min(count, this.#to - this.#at) | 0;
    const wrong = reuseEvicted(blocks, taken, this.#table, this.#at, this.pool.words);
    if (wrong >= 0) this.pool.move(blocks[wrong], idle, free);
    this.#at += taken;
    for (let i = taken; i < count; i++) this.pool.move(blocks[i], idle, free);
    this.free(blocks, taken, count);
  }

  get freeBlocks(): number {
    return this.#allocator.freeBlocks;
  }

  /** Frees blocks `[from, to)` of the list, which belonged to one request or entry, deepest first. */
  free(blocks: Int32Array, from: number, to: number): void {
    if (from === to) return;
    if (this.#singleQueue) for (let i = from; i < to; i++) this.#freedAt[blocks[i]] = this.tick;
    this.#allocator.release(blocks, from, to);
  }

  blockDropped(block: BlockId): void {
    if (this.#log !== undefined) {
      const { key, end } = this.#storedContents!;
      this.#log.drop(this.now, this.request.id, block, key[block], end[block]);
    }
    const { pool } = this;
    if (pool.refCountOf(block) > 0) pool.move(block, published, computing);
    else this.#reuseOrFree(block);
  }

  /** Uses a dropped idle block for the allocation under way, or frees it. */
  #reuseOrFree(block: BlockId): void {
    this.pool.move(block, idle, free);
    if (this.#at < this.#to) {
      this.#table[this.#at++] = block;
      return;
    }
    this.#singleBlock[0] = block;
    this.free(this.#singleBlock, 0, 1);
  }

  /**
   * Allocates `table[from .. to)`: free blocks first, then eviction victims. Returns the index from which on the blocks are
   * those of victims that are still in state `idle`.
   */
  allocate(table: Int32Array, from: number, to: number): number {
    if (this.#singleQueue) return this.#allocateByReleaseTime(table, from, to);
    const allocator = this.#allocator;
    if (!allocator.unordered) {
      for (let missing = to - from - this.freeBlocks; missing > 0; missing = to - from - this.freeBlocks)
        this.#evictOne(missing);
      allocator.allocate(table, from, to);
      return to;
    }
    const at = Math.min(to, from + allocator.freeBlocks);
    if (at > from) allocator.allocate(table, from, at);
    if (at === to) return to;
    if (this.#leaves !== undefined) {
      this.#evictLeaves(this.#leaves, table, at, to);
    } else if (this.#evictsMany) {
      this.#takeVictims(table, at, to);
      this.#index.evictMany!(table, at, to);
    } else {
      this.#evictInto(table, at, to);
      return to;
    }
    this.#counters.evictedBlocks += to - at;
    return at;
  }

  /**
   * Evicts leaves for `table[from .. to)`: a parent that became a leaf is added to the policy before the next victim is
   * chosen.
   */
  #evictLeaves(leaves: LeafIndex, table: Int32Array, from: number, to: number): void {
    const policy = this.#policy;
    let parent = -1;
    for (let at = from | 0; at < to; at++) {
      const leaf = policy.takeNext!(parent);
      if (leaf < 0) this.throwInvalidVictim(undefined);
      table[at] = leaf;
      parent = leaves.evictLeaf(leaf);
    }
    if (parent >= 0) policy.add(parent);
  }

  /** Writes the next victims, which are single blocks, to `table[from .. to)`; the index has them still. */
  #takeVictims(table: Int32Array, from: number, to: number): void {
    const policy = this.#policy;
    if (policy.takeMany !== undefined) {
      if (policy.takeMany(table, from, to) < to) this.throwInvalidVictim(undefined);
      return;
    }
    for (let at = from | 0; at < to; at++) {
      const victim = policy.victim(this.now);
      if (victim === undefined || !this.isIdle(victim)) this.throwInvalidVictim(victim);
      policy.remove(victim, "evicted");
      table[at] = victim;
    }
  }

  /** Evicts blocks for `table[from .. to)`. */
  #evictInto(table: Int32Array, from: number, to: number): void {
    this.#table = table;
    this.#at = from;
    this.#to = to;
    while (this.#at < to) this.#evictOne(to - this.#at);
    this.#at = this.#to = 0;
  }

  /** `allocate` with `free-queue=single`: the block that was released first, free or cached. */
  #allocateByReleaseTime(table: Int32Array, from: number, to: number): number {
    const allocator = this.#allocator;
    for (let at = from; at < to; at++) {
      const victim = this.#index.evictableBlocks === 0 ? undefined : this.#policy.victim(this.now);
      const free = allocator.freeBlocks > 0 ? allocator.peek!() : undefined;
      if (free !== undefined && (victim === undefined || this.#isBefore(free, victim)))
        allocator.allocate(table, at, at + 1);
      else this.#evictInto(table, at, at + 1);
    }
    return to;
  }

  /** Whether the free block was released before the victim. One operation frees blocks at the end of the block table first. */
  #isBefore(block: BlockId, victim: EntryId): boolean {
    const at = this.#freedAt[block];
    const other = this.columns.lastAccess[victim];
    return at < other || (at === other && !this.columns.forward);
  }

  /** Enforces the rules `max-entries` and `prefix-blocks`: evicts the policy's victims, then drops the oldest entries. */
  enforceLimits(): void {
    const index = this.#index;
    while (index.entryCount > this.#maxEntries || index.blockCount > this.#maxBlocks) {
      const victim = index.evictableBlocks > 0 ? this.#policy.victim(this.now) : undefined;
      if (victim !== undefined) {
        this.#evictOne(Math.max(1, Math.min(index.blockCount - this.#maxBlocks, maxBlocks)));
      } else {
        const oldest = index.oldest?.((block) => this.isPinned(block)) ?? -1;
        if (oldest < 0) return;
        index.drop(oldest);
      }
    }
  }

  /** Empties a cache without references: all blocks are free, in the order in which they would have been allocated. */
  clear(): void {
    const { evictedBlocks } = this.#counters;
    const order = new Int32Array(this.freeBlocks + this.#index.evictableBlocks);
    if (this.#singleQueue) {
      this.#allocateByReleaseTime(order, 0, order.length);
    } else {
      order.set(Int32Array.from(this.#allocator.free()));
      this.#evictInto(order, this.freeBlocks, order.length);
    }
    for (const block of order) if (this.pool.stateOf(block) === idle) this.pool.move(block, idle, free);
    this.#allocator.reset(order);
    this.#counters.evictedBlocks = evictedBlocks;
  }

  /** Evicts until `count` more blocks are free, or no entry is evictable; returns the number of freed blocks. */
  evictBlocks(count: number): number {
    const before = this.freeBlocks;
    while (this.freeBlocks - before < count && this.#index.evictableBlocks > 0)
      this.#evictOne(count - (this.freeBlocks - before));
    return this.freeBlocks - before;
  }

  grow(blockCount: number): void {
    this.columns.grow(blockCount);
    this.#storedContents?.grow(blockCount);
    if (this.#singleQueue) this.#freedAt = grown(this.#freedAt, blockCount);
    this.#allocator.grow(blockCount);
  }

  get nextExpiry(): Nanos {
    const entry = this.#policy.nextToExpire!();
    return entry === undefined ? Number.POSITIVE_INFINITY : this.#expiresAt(entry);
  }

  #expiresAt(entry: EntryId): Nanos {
    const at = this.#policy.expiresAt!(entry);
    if (typeof at !== "number" || Number.isNaN(at))
      throw new PolicyError(
        `expiresAt(${String(entry)}) of the eviction policy returned ${String(at)}, expected a time`,
      );
    return at;
  }

  /** Evicts the entries that have expired by `now`, each as an operation of its own at the time at which it expires. */
  expireUntil(now: Nanos): void {
    const policy = this.#policy;
    for (;;) {
      const entry = policy.nextToExpire!();
      if (entry === undefined) return;
      const at = this.#expiresAt(entry);
      if (at > now) return;
      if (!this.#index.isEvictable(entry))
        throw new PolicyError(`eviction policy lets entry ${String(entry)} expire, ${this.#whyInvalid(entry)}`);
      this.tick++;
      this.now = Math.max(this.now, at);
      this.request = operatorRequest;
      policy.remove(entry, "expired");
      this.#expiring = true;
      this.#index.evict(entry, maxBlocks);
      this.#expiring = false;
    }
  }

  #evictOne(neededBlocks: number): void {
    const victim = this.#policy.victim(this.now);
    if (victim === undefined || !this.#index.isEvictable(victim)) this.throwInvalidVictim(victim);
    this.#policy.remove(victim, "evicted");
    this.#index.evict(victim, neededBlocks);
  }

  #logEviction(block: BlockId, log: EventLog): void {
    const { key, end } = this.#storedContents!;
    if (this.#expiring) log.drop(this.now, this.request.id, block, key[block], end[block]);
    else log.evict(this.now, this.request.id, block, key[block], end[block]);
  }

  throwInvalidVictim(victim: EntryId | undefined): never {
    if (victim === undefined) {
      throw new PolicyError(
        `eviction policy has no victim although ${this.#index.evictableBlocks} blocks are evictable`,
      );
    }
    throw new PolicyError(`eviction policy returned entry ${String(victim)} as victim, ${this.#whyInvalid(victim)}`);
  }

  #whyInvalid(victim: EntryId): string {
    if (!Number.isInteger(victim) || victim < 0 || victim >= this.columns.key.length) return "which does not exist";
    let stored = false;
    for (const block of this.#index.blocks()) {
      if (this.#index.entryOf(block) !== victim) continue;
      if (this.pool.refCountOf(block) > 0) return "which a request references";
      stored = true;
    }
    return stored ? "which other entries extend" : "which is not in the cache";
  }
}

/** More blocks than any cache has. */
const maxBlocks = 2 ** 31 - 1;

const limitOf = (limit: number | "unlimited") => (limit === "unlimited" ? Number.POSITIVE_INFINITY : limit);

/** By stored block: content id, and the end of the block in tokens. */
class StoredContents {
  key: Uint32Array;
  end: Uint32Array;

  constructor(blockCount: number) {
    this.key = new Uint32Array(blockCount);
    this.end = new Uint32Array(blockCount);
  }

  grow(blockCount: number): void {
    this.key = grown(this.key, blockCount);
    this.end = grown(this.end, blockCount);
  }
}
