import { InvariantError } from "../errors.ts";
import { grown } from "../grown.ts";
import type { BlockId } from "../plugins/index.ts";

/**
 * A block's life:
 *
 *   free ─▶ reserved ─▶ computing ─▶ published ─▶ idle ─▶ (evicted) free or reserved
 *             │            │             ▲          │
 *             └────────────┴─▶ free      └──────────┘ referenced again
 *
 * reserved: private and empty. computing: private, computed by the step under way or before. published: in the index and
 * referenced. idle: in the index and unreferenced.
 */
export const BlockState = { free: 0, reserved: 1, computing: 2, published: 3, idle: 4 } as const;
export type BlockStateName = keyof typeof BlockState;
export const blockStateNames = Object.keys(BlockState) as BlockStateName[];

const stateShift = 24;
const refCountMask = (1 << stateShift) - 1;

/** State and reference count in one word, so that the innermost loops read one array. */
export const blockWord = (state: number, refCount: number): number => (state << stateShift) | refCount;

/** State and reference count of every physical block. */
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

  /** Sequences and pins that reference the block. */
  refCountOf(block: BlockId): number {
    return this.words[block] & refCountMask;
  }

  /** Changes the reference count; the state stays the same. */
  addRefs(block: BlockId, count: 1 | -1): void {
    this.words[block] += count;
  }

  /** Changes a block's state. @throws InvariantError if its state is not `from` */
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
