import type { Allocator, AllocatorPlugin, Fragmentation } from "../../core/plugins/index.ts";
import { FreeSlots } from "./free-slots.ts";
import { assertEnough, HandedOut } from "./handed-out.ts";

/**
 * The free slots with the lowest addresses, in ascending order, wherever they lie. TokenAttention keeps a flag for each
 * slot and finds them with a prefix sum over all of them; a bitmap with summaries finds the same ones without reading the
 * pool. Where the original silently returned fewer slots than asked for, this fails.
 * Source: LightLLM's memory manager as first published (`mem_state`, `alloc`).
 */
class TokenSlots implements Allocator {
  readonly #slots: FreeSlots;
  #slotCount: number;
  readonly #handedOut = new HandedOut();

  constructor(slotCount: number) {
    this.#slots = new FreeSlots(slotCount);
    this.#slots.addRange(0, slotCount);
    this.#slotCount = slotCount;
  }

  get freeBlocks(): number {
    return this.#slots.count;
  }

  allocate(table: Int32Array, from: number, to: number): void {
    assertEnough(this.#slots.count, to - from);
    this.#slots.takeLowest(table, from, to);
    this.#handedOut.count(table, from, to);
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#slots.add(blocks[i]);
  }

  free(): Iterable<number> {
    return this.#slots.list();
  }

  reset(order: Int32Array): void {
    this.#slots.clear();
    this.release(order, 0, order.length);
  }

  grow(slotCount: number): void {
    this.#slots.grow(slotCount);
    this.#slots.addRange(this.#slotCount, slotCount);
    this.#slotCount = slotCount;
  }

  fragmentation(): Fragmentation {
    const { allocations, blocks, runs } = this.#handedOut;
    return { allocations, blocks, runs, largestFreeRun: this.#slots.longestRun() };
  }
}

export const token: AllocatorPlugin = {
  name: "token",
  about: "the free slots with the lowest addresses, scattered or not",
  source: "LightLLM TokenAttention as first published",
  create: (slotCount) => new TokenSlots(slotCount),
};
