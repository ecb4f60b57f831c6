import { blocksOf, type Sequence } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Nanos } from "../trace/trace.ts";
import type { StepPlan } from "./step.ts";

/** Blocks of host memory for the KV of sequences that are swapped out. Swaps are part of the step that is being planned. */
export class HostMemory {
  readonly blocks: number;
  readonly #blockTokens: number;
  readonly #plan: StepPlan;
  readonly #log: EventLog | undefined;
  #used = 0;

  constructor(blocks: number, blockTokens: number, plan: StepPlan, log: EventLog | undefined) {
    this.blocks = blocks;
    this.#blockTokens = blockTokens;
    this.#plan = plan;
    this.#log = log;
  }

  get freeBlocks(): number {
    return this.blocks - this.#used;
  }

  /** Records that the computed tokens of the sequence are in host memory. */
  swapOut(sequence: Sequence, tokens: number, now: Nanos): void {
    if (tokens === 0) return;
    const blocks = blocksOf(tokens, this.#blockTokens);
    assert(blocks <= this.freeBlocks, `${blocks} blocks to swap out, ${this.freeBlocks} free in host memory`);
    this.#used += blocks;
    sequence.swappedTokens = tokens;
    this.#plan.swappedTokens += tokens;
    this.#log?.swapOut(now, sequence.request.id, tokens, blocks);
  }

  /** Swaps in the `restoredTokens` of the sequence, which are in host memory and not cached. */
  swapIn(sequence: Sequence, now: Nanos): void {
    const { restoredTokens, request } = sequence;
    this.#plan.swappedTokens += restoredTokens;
    this.#log?.swapIn(now, request.id, restoredTokens, blocksOf(restoredTokens, this.#blockTokens));
    this.free(sequence);
  }

  free(sequence: Sequence): void {
    this.#used -= blocksOf(sequence.swappedTokens, this.#blockTokens);
    sequence.swappedTokens = 0;
  }
}
