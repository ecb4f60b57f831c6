import { InvariantError } from "../errors.ts";
import { grown } from "../grown.ts";
import type { BlockId } from "../plugins/index.ts";

/**
 * A block's life:
 *
 *   free ─▶ reserved ─▶ computing ─▶ published ─▶ idle ─▶ (evicted) free or reserved
 *             │            │             ▲          │
 *             └────────────┴─▶ free      └──────────┘ held again
 *
 * reserved: a request owns it, nothing is in it. computing: the step under way writes it, or did and nobody else may
 * find it. published: an index knows it and somebody holds it. idle: an index knows it and nobody holds it.
 */
export const BlockState = { free: 0, reserved: 1, computing: 2, published: 3, idle: 4 } as const;
export type BlockStateName = keyof typeof BlockState;
export const blockStateNames = Object.keys(BlockState) as BlockStateName[];

const stateShift = 24;
const refCountMask = (1 << stateShift) - 1;

/** State and number of holders in one word, so that the innermost loops touch one array. */
export const blockWord = (state: number, holders: number): number => (state << stateShift) | holders;

/** State and holders of every physical block. */
export class BlockPool {
  /** `blockWord` of each block. */
  words: Int32Array;

  constructor(blockCount: number) {
    this.words = new Int32Array(blockCount);
  }

  get blockCount(): number {
    return this.words.length;
  }

  stateOf(block: BlockId): number {
    return this.words[block] >> stateShift;
  }

  /** Requests that hold the block. */
  refCountOf(block: BlockId): number {
    return this.words[block] & refCountMask;
  }

  /** One holder more or less, in the same state. */
  addRefs(block: BlockId, count: 1 | -1): void {
    this.words[block] += count;
  }

  /** Moves a block on; fails if it is not where the caller believes it to be. */
  move(block: BlockId, from: number, to: number): void {
    if (this.stateOf(block) !== from) {
      const [is, was, next] = [this.stateOf(block), from, to].map((state) => blockStateNames[state]);
      throw new InvariantError(`block ${block} is ${is}, not ${was}, and cannot become ${next}`);
    }
    this.words[block] = blockWord(to, this.refCountOf(block));
  }

  grow(blockCount: number): void {
    this.words = grown(this.words, blockCount);
  }
}
