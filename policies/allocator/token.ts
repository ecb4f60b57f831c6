import type { Allocator, AllocatorPlugin, Fragmentation } from "../../core/plugins/index.ts";
import { AllocationStats, assertEnough } from "./allocation-stats.ts";
import { FreeSlots } from "./free-slots.ts";

/**
 * Allocates the free slots with the lowest numbers, in ascending order, contiguous or not. TokenAttention has a flag per
 * slot and finds free slots with a prefix sum over all flags; a hierarchical bitmap finds the same slots without reading
 * them all. Where we differ: if there are too few slots, the original silently returns fewer, and this one fails.
 * Source: LightLLM's memory manager as first published (`mem_state`, `alloc`).
 */
class TokenSlots implements Allocator {
  readonly #slots: FreeSlots;
  #slotCount: number;
  readonly #stats = new AllocationStats();

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
    this.#slots.allocateLowest(table, from, to);
    this.#stats.count(table, from, to);
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
    const { allocations, blocks, runs } = this.#stats;
    return { allocations, blocks, runs, largestFreeRun: this.#slots.longestRun() };
  }
}

export const token: AllocatorPlugin = {
  name: "token",
  about: "allocates the free slots with the lowest numbers, contiguous or not",
  source: "LightLLM TokenAttention as first published",
  create: (slotCount) => new TokenSlots(slotCount),
};
