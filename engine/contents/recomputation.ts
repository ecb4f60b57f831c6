import { assert } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import type { Executor } from "../executor.ts";

/** Tokens of a step; longer sequences are prefilled in several steps. */
const maxStepTokens = 2048;

/** Prefills whole sequences, without a cached prefix, into blocks that no cache allocates. */
export class Recomputation {
  readonly #scratch: Executor;
  readonly #random: Random;
  /**
   * All blocks in a random order. The tables of consecutive sequences begin at different places, so that a fault that depends on
   * block numbers or on earlier contents affects a sequence and its recomputation differently.
   */
  readonly #blocks: Int32Array;

  constructor(scratch: Executor, random: Random) {
    this.#scratch = scratch;
    this.#random = random;
    this.#blocks = Int32Array.from({ length: scratch.blockCount }, (_, block) => block);
    for (let i = this.#blocks.length - 1; i > 0; i--) {
      const other = random.below(i + 1);
      [this.#blocks[i], this.#blocks[other]] = [this.#blocks[other], this.#blocks[i]];
    }
  }

  /** Returns the block table, and the logits of the last token, which are valid until the executor's next step. */
  async prefill(tokens: Int32Array): Promise<{ readonly table: number[]; readonly logits: Float32Array }> {
    const { blockTokens, blockCount } = this.#scratch;
    const blocks = Math.ceil(tokens.length / blockTokens);
    assert(blocks <= blockCount, `${tokens.length} tokens are recomputed in ${blockCount} blocks of ${blockTokens}`);
    const first = this.#random.below(blockCount);
    const table = Array.from({ length: blocks }, (_, i) => this.#blocks[(first + i) % blockCount]);
    let logits = new Float32Array(0);
    for (let from = 0; from < tokens.length; from += maxStepTokens) {
      const to = Math.min(tokens.length, from + maxStepTokens);
      const positions = Int32Array.from({ length: to - from }, (_, i) => from + i);
      const result = await this.#scratch.executeStep({
        inputIds: tokens.slice(from, to),
        positions,
        slotMapping: positions.map((at) => table[Math.floor(at / blockTokens)] * blockTokens + (at % blockTokens)),
        cuSeqlensQ: Int32Array.of(0, to - from),
        contextLens: Int32Array.of(to),
        blockTables: Int32Array.from(table),
        maxBlocksPerSequence: blocks,
        logitsIndices: to === tokens.length ? Int32Array.of(to - from - 1) : new Int32Array(0),
      });
      logits = result.logits as Float32Array<ArrayBuffer>;
    }
    return { table, logits };
  }
}
