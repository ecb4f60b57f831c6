import { grown } from "../../core/grown.ts";
import type { Allocator, AllocatorPlugin, Fragmentation } from "../../core/plugins/index.ts";
import { AllocationStats, assertEnough } from "./allocation-stats.ts";
import { FreeSlots } from "./free-slots.ts";

/**
 * A list of free blocks: allocation removes the last n blocks and keeps their order: from the list 1 .. 11, four blocks are 8,
 * 9, 10, 11. Released blocks are appended in the order of the prompt. So the blocks of one allocation stay consecutive in the
 * list, and the blocks released last are allocated first. Source: `SimpleAllocator` and `RadixAllocator` of TGI v3, where block
 * 0 is never free.
 */
class BlockList implements Allocator {
  freeBlocks: number;
  #list: Int32Array;
  readonly #stats = new AllocationStats();

  constructor(blockCount: number) {
    this.freeBlocks = blockCount;
    this.#list = Int32Array.from({ length: blockCount }, (_, block) => block);
  }

  allocate(table: Int32Array, from: number, to: number): void {
    const list = this.#list;
    assertEnough(this.freeBlocks, to - from);
    const begin = this.freeBlocks - (to - from);
    for (let i = from; i < to; i++) table[i] = list[begin + i - from];
    this.freeBlocks = begin;
    this.#stats.count(table, from, to);
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = to - 1; i >= from; i--) this.#list[this.freeBlocks++] = blocks[i];
  }

  /** In the order of single-block allocations; the blocks of one larger allocation are in the opposite order. */
  free(): Iterable<number> {
    return this.#list.slice(0, this.freeBlocks).reverse();
  }

  reset(order: Int32Array): void {
    this.freeBlocks = order.length;
    this.#list.set(order.toReversed());
  }

  grow(blockCount: number): void {
    const before = this.#list.length;
    this.#list = grown(this.#list, blockCount);
    for (let block = before; block < blockCount; block++) this.#list[this.freeBlocks++] = block;
  }

  fragmentation(): Fragmentation {
    const { allocations, blocks, runs } = this.#stats;
    const slots = new FreeSlots(this.#list.length);
    for (let i = 0; i < this.freeBlocks; i++) slots.add(this.#list[i]);
    return { allocations, blocks, runs, largestFreeRun: slots.longestRun() };
  }
}

export const blockList: AllocatorPlugin = {
  name: "block-list",
  about: "allocates the end of a list of free blocks, in list order",
  source: "TGI v3 SimpleAllocator",
  create: (blockCount) => new BlockList(blockCount),
};
