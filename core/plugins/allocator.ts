import type { BlockId } from "./entry-columns.ts";
import type { Plugin } from "./plugin.ts";

/** Hands out block ids and takes them back, in lists, for some allocators care which blocks go together. */
export interface Allocator {
  readonly freeBlocks: number;
  /** Free blocks for `table[from .. to)`; there are enough, the caller has looked. */
  allocate(table: Int32Array, from: number, to: number): void;
  /** `blocks[from .. to)` are free now; one request or one entry had them, and its deepest comes first. */
  release(blocks: Int32Array, from: number, to: number): void;
  grow(blockCount: number): void;
  /** The free blocks, the next one to go out first. */
  free(): Iterable<BlockId>;
  /** Everything is free now, and goes out in this order. */
  reset(order: Int32Array): void;
  /** The block that goes out next, where they queue. */
  peek?(): BlockId;
  /** How scattered allocations are, where it matters. */
  fragmentation?(): Fragmentation;
  /** The order of free blocks means nothing: a victim may go to its next owner without coming back here. */
  readonly unordered?: true;
}

/** How an allocator's blocks lie. A run is a row of neighbours, of consecutive numbers. */
export interface Fragmentation {
  /** Lists of blocks handed out, their blocks, and the runs that these came in: as many as lists if none was scattered. */
  readonly allocations: number;
  readonly blocks: number;
  readonly runs: number;
  /** Of the blocks that are free now, the longest run. */
  readonly largestFreeRun: number;
}

export interface AllocatorPlugin extends Plugin {
  /** Free blocks go out in the order in which they came: what the rule `free-queue=single` needs, and `peek`. */
  readonly isFifo?: true;
  create(blockCount: number): Allocator;
}
