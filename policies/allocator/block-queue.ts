import { grown } from "../../core/grown.ts";
import type { Allocator, AllocatorPlugin, BlockId } from "../../core/plugins/index.ts";
import { assertEnough } from "./allocation-stats.ts";

/** A FIFO queue of free blocks in a ring buffer. */
class BlockQueue implements Allocator {
  freeBlocks: number;
  #ring: Int32Array;
  #head = 0;

  constructor(blockCount: number) {
    this.freeBlocks = blockCount;
    this.#ring = Int32Array.from({ length: blockCount }, (_, block) => block);
  }

  allocate(table: Int32Array, from: number, to: number): void {
    assertEnough(this.freeBlocks, to - from);
    for (let i = from; i < to; i++) {
      table[i] = this.peek();
      this.#head = this.#place(1);
      this.freeBlocks--;
    }
  }

  peek(): BlockId {
    return this.#ring[this.#head];
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#ring[this.#place(this.freeBlocks++)] = blocks[i];
  }

  free(): Iterable<BlockId> {
    return Array.from({ length: this.freeBlocks }, (_, i) => this.#ring[this.#place(i)]);
  }

  reset(order: Int32Array): void {
    this.#head = 0;
    this.freeBlocks = order.length;
    this.#ring.set(order);
  }

  grow(blockCount: number): void {
    const before = this.#ring.length;
    const freeBlocks = Int32Array.from(this.free());
    this.#ring = grown(freeBlocks, blockCount);
    this.#head = 0;
    for (let block = before; block < blockCount; block++) this.#ring[this.freeBlocks++] = block;
  }

  /** Index in the ring of the block `ahead` places after the head. */
  #place(ahead: number): number {
    const at = this.#head + ahead;
    return at < this.#ring.length ? at : at - this.#ring.length;
  }
}

export const blockQueue: AllocatorPlugin = {
  name: "block-queue",
  about: "a FIFO queue of free blocks: the block released first is allocated first",
  source: "nano-vllm; LMDeploy's demo (issue 1407); SGLang's list of free slots",
  isFifo: true,
  create: (blockCount) => new BlockQueue(blockCount),
};
