import type { Allocator, AllocatorPlugin, Fragmentation } from "../../core/plugins/index.ts";
import { FreeSlots } from "./free-slots.ts";
import { assertEnough, HandedOut } from "./handed-out.ts";
import { RunTree } from "./run-tree.ts";

/**
 * The lowest run of free slots that is long enough; if there is none, the lowest free slots. It is what the text about
 * TokenAttention promises (contiguous memory first), whose code takes the lowest free slots in any case. Looking for a run
 * costs the logarithm of the pool, and so does each word of 32 slots that an allocation or a release changes.
 */
class ContiguousSlots implements Allocator {
  readonly #slots: FreeSlots;
  #runs: RunTree;
  #slotCount: number;
  readonly #handedOut = new HandedOut();

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
    if (run === undefined) this.#slots.takeLowest(table, from, to);
    else this.#slots.takeFrom(run, table, from, to);
    this.#runs.changed(table, from, to);
    this.#handedOut.count(table, from, to);
  }

  release(blocks: Int32Array, from: number, to: number): void {
    for (let i = from; i < to; i++) this.#slots.add(blocks[i]);
    this.#runs.changed(blocks, from, to);
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
    const { allocations, blocks, runs } = this.#handedOut;
    return { allocations, blocks, runs, largestFreeRun: this.#runs.longest };
  }
}

export const tokenContiguous: AllocatorPlugin = {
  name: "token-contiguous",
  about: "the first run of free slots that is long enough; if there is none, the lowest free slots",
  source: "what LightLLM's text says of TokenAttention",
  create: (slotCount) => new ContiguousSlots(slotCount),
};
