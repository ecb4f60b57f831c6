import type { Counters } from "./counters.ts";
import { EntryColumns } from "./entries.ts";
import { assert, PolicyError } from "./errors.ts";
import { EventKind, type EventLog } from "./events.ts";
import type { Allocator, BlockId, EntryId, EvictionPolicy, IndexHost } from "./plugins.ts";
import { type BlockPool, BlockState } from "./pool.ts";
import type { Nanos } from "./trace.ts";

/**
 * What is cached: the facts about every entry, and which entries may be evicted. It stands between the index, which
 * says what happens to its entries, and the policy, which orders those that may go, and believes neither blindly.
 */
export class CacheEntries implements IndexHost {
  readonly columns: EntryColumns;
  readonly pool: BlockPool;
  /** Advanced by every operation of the cache; the time that recency and age are measured in. */
  tick = 0;
  now: Nanos = 0;
  request = -1;
  evict: (entry: EntryId, wantedBlocks: number) => void = () => {};
  readonly #allocator: Allocator;
  readonly #counters: Counters;
  readonly #log: EventLog | undefined;
  readonly #forward: boolean;
  #policy: EvictionPolicy | undefined;
  /** 1 for entries that the policy has been given. */
  #listed: Uint8Array;
  #listedCount = 0;

  constructor(
    pool: BlockPool,
    allocator: Allocator,
    counters: Counters,
    freeOrder: "reverse" | "forward",
    log: EventLog | undefined,
  ) {
    this.pool = pool;
    this.columns = new EntryColumns(pool.blockCount);
    this.#listed = new Uint8Array(pool.blockCount);
    this.#allocator = allocator;
    this.#counters = counters;
    this.#forward = freeOrder === "forward";
    this.#log = log;
  }

  /** The policy is made after the columns that it reads. */
  usePolicy(policy: EvictionPolicy): void {
    this.#policy = policy;
  }

  get refCount(): Uint32Array {
    return this.pool.refCount;
  }

  isListed(entry: EntryId): boolean {
    return this.#listed[entry] === 1;
  }

  get listedCount(): number {
    return this.#listedCount;
  }

  created(entry: EntryId, depth: number, tokens: number, key: number): void {
    const { columns } = this;
    columns.createdAt[entry] = this.tick;
    columns.lastAccess[entry] = this.tick;
    columns.accessCount[entry] = 0;
    columns.releaseOrder[entry] = this.#forward ? depth : -depth;
    columns.depth[entry] = depth;
    columns.tokens[entry] = tokens;
    columns.key[entry] = key;
    columns.measured(entry);
    this.#policy!.published?.(entry);
  }

  hit(entry: EntryId): void {
    this.columns.accessCount[entry]++;
    this.#policy!.hit?.(entry);
  }

  touch(entry: EntryId): void {
    this.columns.lastAccess[entry] = this.tick;
  }

  evictable(entry: EntryId): void {
    assert(this.#listed[entry] === 0, "an entry became evictable twice");
    this.#listed[entry] = 1;
    this.#listedCount++;
    this.#policy!.add(entry);
  }

  blocked(entry: EntryId): void {
    this.#unlist(entry, "held");
  }

  dropped(entry: EntryId): void {
    if (this.#listed[entry] === 1) this.#unlist(entry, "dropped");
    this.#log?.add(EventKind.drop, this.now, this.request, entry, this.columns.key[entry], this.columns.tokens[entry]);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.columns.measured(lower);
    this.columns.measured(upper);
    this.#policy!.split?.(lower, upper);
  }

  resized(entry: EntryId): void {
    this.columns.measured(entry);
    this.#policy!.resized?.(entry);
  }

  forgotten(block: BlockId): void {
    const { pool } = this;
    if (pool.refCount[block] > 0) {
      pool.move(block, BlockState.published, BlockState.computing);
      return;
    }
    pool.move(block, BlockState.idle, BlockState.free);
    this.#allocator.release(block);
  }

  /** Asks the policy who goes and takes that entry, or as much of it as is wanted, out. */
  evictOne(wantedBlocks: number): void {
    const victim = this.#policy!.victim(this.now);
    if (victim === undefined) {
      throw new PolicyError(`eviction policy has no victim although ${this.#listedCount} entries are evictable`);
    }
    if (this.#listed[victim] !== 1) this.#refuseVictim(victim);
    this.#log?.add(
      EventKind.evict,
      this.now,
      this.request,
      victim,
      this.columns.key[victim],
      this.columns.tokens[victim],
    );
    this.#unlist(victim, "evicted");
    const free = this.#allocator.freeBlocks;
    this.evict(victim, wantedBlocks);
    this.#counters.evictedBlocks += this.#allocator.freeBlocks - free;
  }

  grow(blockCount: number): void {
    this.columns.grow(blockCount);
    const larger = new Uint8Array(blockCount);
    larger.set(this.#listed);
    this.#listed = larger;
  }

  #unlist(entry: EntryId, why: "held" | "evicted" | "dropped"): void {
    assert(this.#listed[entry] === 1, "an entry that was not evictable ceases to be");
    this.#listed[entry] = 0;
    this.#listedCount--;
    this.#policy!.remove(entry, why);
  }

  #refuseVictim(victim: EntryId): never {
    const known = Number.isInteger(victim) && victim >= 0 && victim < this.#listed.length;
    const held = known && this.pool.refCount[victim] > 0;
    const what = held ? "which a request holds" : "which is not evictable";
    throw new PolicyError(
      `eviction policy named entry ${String(victim)} as victim, ${known ? what : "which does not exist"}`,
    );
  }
}
