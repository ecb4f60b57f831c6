import { InvariantError } from "./errors.ts";
import type { BlockId } from "./plugins.ts";

/**
 * A block's life:
 *
 *   free ─▶ reserved ─▶ computing ─▶ published ─▶ idle ─▶ (evicted) free
 *             │            │             ▲          │
 *             └────────────┴─▶ free      └──────────┘ held again
 *
 * reserved: a request owns it, nothing is in it. computing: the step under way writes it, or did and nobody else may
 * find it. published: an index knows it and somebody holds it. idle: an index knows it and nobody holds it.
 */
export const BlockState = { free: 0, reserved: 1, computing: 2, published: 3, idle: 4 } as const;
export type BlockStateName = keyof typeof BlockState;
export const blockStateNames = Object.keys(BlockState) as BlockStateName[];

/** Where a block's content is. */
export const Tier = { device: 0, host: 1, disk: 2 } as const;

/** State, holders and tier of every physical block. */
export class BlockPool {
  state: Uint8Array;
  /** Requests that hold the block. */
  refCount: Uint32Array;
  tier: Uint8Array;

  constructor(blockCount: number) {
    this.state = new Uint8Array(blockCount);
    this.refCount = new Uint32Array(blockCount);
    this.tier = new Uint8Array(blockCount);
  }

  get blockCount(): number {
    return this.state.length;
  }

  /** Moves a block on; fails if it is not where the caller believes it to be. */
  move(block: BlockId, from: number, to: number): void {
    if (this.state[block] !== from) this.#misplaced(block, from, to);
    this.state[block] = to;
  }

  #misplaced(block: BlockId, from: number, to: number): never {
    const [is, was, next] = [this.state[block], from, to].map((state) => blockStateNames[state]);
    throw new InvariantError(`block ${block} is ${is}, not ${was}, and cannot become ${next}`);
  }

  grow(blockCount: number): void {
    const larger = <T extends Uint8Array | Uint32Array>(column: T, into: T): T => {
      into.set(column);
      return into;
    };
    this.state = larger(this.state, new Uint8Array(blockCount));
    this.refCount = larger(this.refCount, new Uint32Array(blockCount));
    this.tier = larger(this.tier, new Uint8Array(blockCount));
  }
}
