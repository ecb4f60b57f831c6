import type { BlockId } from "./entry-columns.ts";
import type { Plugin } from "./plugin.ts";

/** Allocates and frees physical blocks, in lists: some allocators place the blocks of one list together. */
export interface Allocator {
  /** Number of free blocks. */
  readonly freeBlocks: number;
  /** Allocates free blocks for `table[from .. to)`. The caller has checked that there are enough. */
  allocate(table: Int32Array, from: number, to: number): void;
  /** Frees `blocks[from .. to)`, which belonged to one request or one entry, deepest first. */
  release(blocks: Int32Array, from: number, to: number): void;
  /** Adds blocks: there are `blockCount` now. */
  grow(blockCount: number): void;
  /** The free blocks, in the order of allocation. */
  free(): Iterable<BlockId>;
  /** All blocks are free, and are allocated in this order. */
  reset(order: Int32Array): void;
  /** The next block to be allocated; required with `isFifo`. */
  peek?(): BlockId;
  /** Fragmentation; absent where block numbers do not matter. */
  fragmentation?(): Fragmentation;
  /** The order of free blocks does not matter: an evicted block may be reused without a call of `release`. */
  readonly unordered?: true;
}

/** Fragmentation of an allocator. A run is a sequence of blocks with consecutive numbers. */
export interface Fragmentation {
  /** Number of allocated lists, of their blocks, and of the runs in them; without fragmentation each list is one run. */
  readonly allocations: number;
  readonly blocks: number;
  readonly runs: number;
  /** Length of the longest run of free blocks. */
  readonly largestFreeRun: number;
}

export interface AllocatorPlugin extends Plugin {
  /** Free blocks are allocated in the order of their release; required by the rule `free-queue=single`. Implements `peek`. */
  readonly isFifo?: true;
  /** An allocator whose blocks 0 .. `blockCount` − 1 are all free. */
  create(blockCount: number): Allocator;
}
