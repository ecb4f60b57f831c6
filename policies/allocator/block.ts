import type { Allocator, AllocatorPlugin, BlockId } from "../../core/plugins/index.ts";
import { assertEnough } from "./allocation-stats.ts";

/** A stack of free blocks: the block released last is allocated first; of blocks released together, the deepest. */
class BlockStack implements Allocator {
  readonly unordered = true;
  freeBlocks: number;
  #stack: Int32Array;
  #blockCount: number;

  constructor(blockCount: number) {
    this.#blockCount = blockCount;
    this.freeBlocks = blockCount;
    this.#stack = new Int32Array(blockCount);
    for (let i = 0; i < blockCount; i++) this.#stack[i] = blockCount - 1 - i;
  }

  allocate(table: Int32Array, from: number, to: number): void {
    assertEnough(this.freeBlocks, to - from);
    const stack = this.#stack;
    let top = this.freeBlocks | 0;
    for (let i = from | 0; i < to; i++) table[i] = stack[--top];
    this.freeBlocks = top;
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = to - 1; i >= from; i--) this.#stack[this.freeBlocks++] = blocks[i];
  }

  free(): Iterable<BlockId> {
    return this.#stack.slice(0, this.freeBlocks).reverse();
  }

  reset(order: Int32Array): void {
    this.freeBlocks = order.length;
    this.#stack.set(order.toReversed());
  }

  grow(blockCount: number): void {
    const stack = new Int32Array(blockCount);
    const added = blockCount - this.#blockCount;
    for (let i = 0; i < added; i++) stack[i] = blockCount - 1 - i;
    stack.set(this.#stack.subarray(0, this.freeBlocks), added);
    this.#stack = stack;
    this.freeBlocks += added;
    this.#blockCount = blockCount;
  }
}

export const block: AllocatorPlugin = {
  name: "block",
  about: "a stack of free blocks: the block released last is allocated first",
  source: "vLLM PagedAttention (SOSP'23)",
  create: (blockCount) => new BlockStack(blockCount),
};
