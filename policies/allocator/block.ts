import type { Allocator, AllocatorPlugin, BlockId } from "../../core/plugins.ts";

/** Free blocks on a stack: the block given back last, which is the one still in the caches, goes out first. */
class BlockStack implements Allocator {
  readonly handsOver = true;
  freeBlocks: number;
  #stack: Int32Array;
  #blockCount: number;

  constructor(blockCount: number) {
    this.#blockCount = blockCount;
    this.freeBlocks = blockCount;
    this.#stack = new Int32Array(blockCount);
    for (let i = 0; i < blockCount; i++) this.#stack[i] = blockCount - 1 - i;
  }

  allocate(): BlockId {
    return this.#stack[--this.freeBlocks];
  }

  release(block: BlockId): void {
    this.#stack[this.freeBlocks++] = block;
  }

  free(): Iterable<BlockId> {
    return this.#stack.subarray(0, this.freeBlocks);
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
  about: "blocks of fixed size from a stack, ids from 0",
  source: "vLLM PagedAttention (SOSP'23)",
  create: (blockCount) => new BlockStack(blockCount),
};
