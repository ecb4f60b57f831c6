import { assert } from "../../core/errors.ts";

/** Counts allocations, their blocks and the runs of consecutive block numbers in them. */
export class AllocationStats {
  allocations = 0;
  blocks = 0;
  runs = 0;

  /** Counts the allocation of `table[from .. to)`. */
  count(table: Int32Array, from: number, to: number): void {
    if (from >= to) return;
    let runs = 1;
    for (let i = from + 1; i < to; i++) if (table[i] !== table[i - 1] + 1) runs++;
    this.allocations++;
    this.blocks += to - from;
    this.runs += runs;
  }
}

/** Asserts that an allocation does not exceed the free blocks. */
export function assertEnough(freeBlocks: number, count: number): void {
  assert(count <= freeBlocks, () => `cannot allocate ${count} blocks, ${freeBlocks} are free`);
}
