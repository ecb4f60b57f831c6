import { assert } from "../../core/errors.ts";

/** Lists, blocks and runs handed out; a run goes on as long as a block's number is the one before it plus 1. */
export class HandedOut {
  allocations = 0;
  blocks = 0;
  runs = 0;

  /** `table[from .. to)` has been handed out. */
  count(table: Int32Array, from: number, to: number): void {
    if (from >= to) return;
    let runs = 1;
    for (let i = from + 1; i < to; i++) if (table[i] !== table[i - 1] + 1) runs++;
    this.allocations++;
    this.blocks += to - from;
    this.runs += runs;
  }
}

/** Fewer blocks than asked for are never handed out. */
export function assertEnough(freeBlocks: number, wanted: number): void {
  assert(wanted <= freeBlocks, () => `${wanted} blocks are wanted, ${freeBlocks} are free`);
}
