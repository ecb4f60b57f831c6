import { grown } from "../grown.ts";
import type { BlockId } from "../plugins/index.ts";

/** No block: a hole in a block table. */
export const hole = -1;

/** After the last block of any request. */
const unrefused = 2 ** 30;

/**
 * The physical blocks of a sequence, in the order of its tokens.
 *
 *   blocks   [0 ..... cached)   [cached ..... count)               [count ... adoptedEnd)
 *   owner    shared, ref + 1    private; past a hole also shared   shared past a hole, or `hole`
 *
 * Hot loops access `blocks` directly; the other fields change only in methods, which keep cached ≤ count and
 * published ≤ count while the sequence references blocks.
 */
export class BlockTable {
  /** Replaced when it grows; elements from `max(count, adoptedEnd)` on are undefined. */
  blocks: Int32Array = new Int32Array(64);
  #count = 0;
  #adoptedEnd = 0;
  #cached = 0;
  #published = 0;
  #refusedFrom = unrefused;
  #computingEnd = 0;
  #presumedTo = 0;
  #copiedAt = hole;
  #copyAt = hole;
  /** Places past the cached prefix whose block other sequences may reference, too; rarely any. */
  #shared: Set<number> | undefined;

  /** Places before this one have a block. */
  get count(): number {
    return this.#count;
  }
  /** Cached blocks past a hole are referenced before this place; 0 = none. */
  get adoptedEnd(): number {
    return this.#adoptedEnd;
  }
  /** Number of hit blocks at admission. Kept after a release, for reports. */
  get cached(): number {
    return this.#cached;
  }
  /** Blocks before this place have been inserted into the index, or are cached. */
  get published(): number {
    return this.#published;
  }
  /** Blocks from this place on are not stored, because the eviction policy has refused the block at this place. */
  get refusedFrom(): number {
    return this.#refusedFrom;
  }
  /** Private blocks before this place are computed or in the step under way, the others are only reserved. */
  get computingEnd(): number {
    return this.#computingEnd;
  }
  /** Private blocks before this place are in state published although the index has not stored them yet; within one admission. */
  get presumedTo(): number {
    return this.#presumedTo;
  }
  /** Place of a private block that begins as a copy, which is made before the step under way; or `hole`. */
  get copiedAt(): number {
    return this.#copiedAt;
  }
  /** Place of a shared block that is copied when the first output token is added to it; or `hole`. */
  get copyAt(): number {
    return this.#copyAt;
  }
  /** Length of the table, with blocks past a hole. */
  get end(): number {
    return Math.max(this.#count, this.#adoptedEnd);
  }

  /** Grows `blocks` to at least this length; keeps its elements. */
  reserve(places: number): void {
    const { blocks } = this;
    if (places > blocks.length) this.blocks = grown(blocks, Math.max(places, blocks.length * 2));
  }

  /** The first `hits` blocks are hits; the blocks in `[hits, adoptedEnd)`, without the holes, are adopted. */
  admit(hits: number, adoptedEnd: number): void {
    this.#count = this.#cached = this.#published = hits;
    this.#refusedFrom = unrefused;
    this.#adoptedEnd = adoptedEnd;
    for (let i = hits; i < adoptedEnd; i++) if (this.blocks[i] >= 0) this.#share(i);
  }

  /** The block is the next one of the sequence; returns its place. */
  append(block: BlockId): number {
    this.blocks[this.#count] = block;
    return this.#count++;
  }

  /** Places `[count, to)` have been allocated blocks. */
  allocated(to: number): void {
    this.#count = to;
  }

  /** Places from `to` on have no block any more. */
  trim(to: number): void {
    this.#count = to;
    this.#computingEnd = Math.min(this.#computingEnd, to);
  }

  /** Blocks before `to` are in the step under way or computed. */
  computing(to: number): void {
    this.#computingEnd = to;
  }

  /** Private blocks before `to` are in state published before the index stores them; 0 = none. */
  presume(to: number): void {
    this.#presumedTo = to;
  }

  /** Blocks before `to` have been inserted into the index. */
  publish(to: number): void {
    this.#published = to;
  }

  /** The eviction policy has refused the block at this place. */
  refuse(at: number): void {
    this.#refusedFrom = at;
  }

  /** The private block at this place begins as a copy. */
  beginCopy(at: number): void {
    this.#copiedAt = at;
  }

  /** The copy has been made, or is not needed any more. */
  endCopy(): void {
    this.#copiedAt = hole;
  }

  /** The shared block at this place is copied when it is written to; `hole` = none. */
  copyOnWrite(at: number): void {
    this.#copyAt = at;
  }

  /** Another sequence's block with the same content replaces the one at this place. */
  replace(at: number, block: BlockId): void {
    this.blocks[at] = block;
    this.#share(at);
  }

  /** Whether the block at this place, past the cached prefix, may be referenced by other sequences. */
  isShared(at: number): boolean {
    return this.#shared?.has(at) ?? false;
  }

  #share(at: number): void {
    this.#shared ??= new Set();
    this.#shared.add(at);
  }

  /** The sequence references no block any more. */
  release(): void {
    this.#count = this.#adoptedEnd = this.#computingEnd = this.#presumedTo = 0;
    this.#copiedAt = this.#copyAt = hole;
    this.#shared = undefined;
  }

  /** Resets the table; keeps its capacity. */
  clear(): void {
    this.release();
    this.#cached = this.#published = 0;
  }
}
