import type { Allocator, AllocatorPlugin, Fragmentation } from "../../core/plugins/index.ts";
import { AllocationStats, assertEnough } from "./allocation-stats.ts";
import { FreeSlots } from "./free-slots.ts";
import { RunTree } from "./run-tree.ts";

/**
 * Allocates the lowest run of free slots that is long enough; if there is none, the lowest free slots. This is what the
 * description of TokenAttention promises (contiguous memory first); its code always allocates the lowest free slots
 * (`token`). A search is O(log n), and so is the update of each word of 32 slots that an allocation or a release changes.
 */
class ContiguousSlots implements Allocator {
  readonly #slots: FreeSlots;
  #runs: RunTree;
  #slotCount: number;
  readonly #stats = new AllocationStats();

  constructor(slotCount: number) {
    this.#slots = new FreeSlots(slotCount);
    this.#slots.addRange(0, slotCount);
    this.#runs = new RunTree(this.#slots.words);
    this.#slotCount = slotCount;
  }

  get freeBlocks(): number {
    return this.#slots.count;
  }

  allocate(table: Int32Array, from: number, to: number): void {
    assertEnough(this.#slots.count, to - from);
    if (from >= to) return;
    const run = this.#runs.first(to - from);
    if (run === undefined) this.#slots.allocateLowest(table, from, to);
    else this.#slots.allocateFrom(run, table, from, to);
    this.#runs.update(table, from, to);
    this.#stats.count(table, from, to);
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#slots.add(blocks[i]);
    this.#runs.update(blocks, from, to);
  }

  free(): Iterable<number> {
    return this.#slots.list();
  }

  reset(order: Int32Array): void {
    this.#slots.clear();
    for (const slot of order) this.#slots.add(slot);
    this.#runs.rebuild();
  }

  grow(slotCount: number): void {
    this.#slots.grow(slotCount);
    this.#slots.addRange(this.#slotCount, slotCount);
    this.#slotCount = slotCount;
    this.#runs = new RunTree(this.#slots.words);
  }

  fragmentation(): Fragmentation {
    const { allocations, blocks, runs } = this.#stats;
    return { allocations, blocks, runs, largestFreeRun: this.#runs.longest };
  }
}

export const tokenContiguous: AllocatorPlugin = {
  name: "token-contiguous",
  about: "allocates the lowest run of free slots that is long enough; if there is none, the lowest free slots",
  source: "LightLLM's description of TokenAttention",
  create: (slotCount) => new ContiguousSlots(slotCount),
};
