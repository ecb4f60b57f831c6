import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { BlockId, PrefixIndex } from "../plugins/index.ts";
import { own, reference, release } from "./block-loops.ts";
import type { CacheEntries } from "./cache-entries.ts";
import type { Counters } from "./counters.ts";
import { type BlockPool, BlockState, blockWord } from "./pool.ts";
import type { Sequence } from "./request.ts";

// Module constants, because a property of an imported object costs a load in the innermost loops.
const { free, reserved, computing, published, idle } = BlockState;
const freeWord = blockWord(free, 0);
const idleWord = blockWord(idle, 0);

/** States of a private block of one request, with a reference count of 1. */
export const privateWord = {
  reserved: blockWord(reserved, 1),
  computing: blockWord(computing, 1),
  /** Valid only if the block is inserted into the index within the same operation. */
  published: blockWord(published, 1),
} as const;

/**
 * Copy-on-write: `source` is copied to `target` before the step runs. Copies are made in order. If the
 * allocation of the target evicts the source, they can be the same block.
 */
export interface BlockCopy {
  readonly source: BlockId;
  readonly target: BlockId;
}

export interface BlockRefsParts {
  readonly index: PrefixIndex;
  readonly entries: CacheEntries;
  readonly counters: Counters;
  readonly log: EventLog | undefined;
  /** Rule `free-order`. */
  readonly forward: boolean;
  /** The pool grows instead of evicting. */
  readonly unlimited: boolean;
}

/** The reference counts of all blocks. The index is notified when a count becomes 1 and when it becomes 0. */
export class BlockRefs {
  readonly pool: BlockPool;
  /** Block copies of the step under way, made before it runs; cleared by the next plan. */
  readonly copies: BlockCopy[] = [];
  readonly #index: PrefixIndex;
  readonly #entries: CacheEntries;
  readonly #counters: Counters;
  readonly #log: EventLog | undefined;
  readonly #forward: boolean;
  readonly #unlimited: boolean;
  #list = new Int32Array(256);

  constructor({ index, entries, counters, log, forward, unlimited }: BlockRefsParts) {
    this.pool = entries.pool;
    this.#index = index;
    this.#entries = entries;
    this.#counters = counters;
    this.#log = log;
    this.#forward = forward;
    this.#unlimited = unlimited;
  }

  /** References the first `hits` blocks of the table, and the blocks in `[past, to)`, which may contain holes. */
  referenceFound(table: Int32Array, hits: number, past: number, to: number): void {
    const { words } = this.pool;
    const list = this.#listOf(Math.max(hits, to));
    let count = reference(table, 0, hits, words, list, 0);
    if (to > past) count = reference(table, past, to, words, list, count);
    if (count > 0) this.#index.referenced(list, count);
  }

  /** Runs `action` while the first `hits` blocks of the table are referenced. */
  whileReferenced(table: Int32Array, hits: number, action: () => void): void {
    this.referenceFound(table, hits, hits, hits);
    action();
    const list = this.#listOf(hits);
    const released = release(table, hits, this.#forward, this.pool.words, list);
    if (released > 0) this.#index.released(list, released);
  }

  reference(block: BlockId): void {
    const { pool } = this;
    const first = pool.refCountOf(block) === 0;
    if (first) pool.move(block, idle, published);
    pool.addRefs(block, 1);
    if (!first) return;
    const list = this.#listOf(1);
    list[0] = block;
    this.#index.referenced(list, 1);
  }

  /**
   * Allocates private blocks for `table[from .. to)`: free blocks first, then evicted ones. Blocks from `reservedFrom` on are
   * not computed by the step under way.
   */
  allocatePrivate(table: Int32Array, from: number, to: number, word: number, reservedFrom = to): void {
    if (from >= to) return;
    const evictedFrom = this.#entries.allocate(table, from, to);
    this.#mark(table, from, Math.min(evictedFrom, reservedFrom), freeWord, word);
    this.#mark(table, Math.max(from, reservedFrom), evictedFrom, freeWord, privateWord.reserved);
    this.#mark(table, evictedFrom, Math.min(to, reservedFrom), idleWord, word);
    this.#mark(table, Math.max(evictedFrom, reservedFrom), to, idleWord, privateWord.reserved);
  }

  #mark(table: Int32Array, from: number, to: number, was: number, word: number): void {
    if (from >= to) return;
    const wrong = own(table, from, to, this.pool.words, was, word);
    if (wrong < 0) return;
    if (was === idleWord) this.#entries.throwInvalidVictim(table[wrong]);
    this.pool.move(table[wrong], free, reserved);
  }

  /** Grows an unlimited pool, if necessary, so that `blocks` more blocks can be allocated. */
  reserve(blocks: number): void {
    if (!this.#unlimited || this.#entries.freeBlocks >= blocks) return;
    const blockCount = Math.max(2 * this.pool.blockCount, this.pool.blockCount + blocks);
    this.pool.grow(blockCount);
    this.#entries.grow(blockCount);
    this.#index.grow(blockCount);
  }

  /** Adds a copy from `source` to the private block at index i. */
  copy(sequence: Sequence, source: BlockId, i: number): void {
    const target = sequence.table[i];
    this.#counters.copiedBlocks++;
    this.copies.push({ source, target });
    this.#log?.copy(this.#entries.now, sequence.request.id, target, source, i);
  }

  /** Cancels the copy to `target`, which the sequence does not use any more. */
  withdrawCopy(sequence: Sequence, target: BlockId): void {
    sequence.blocks.endCopy();
    const at = this.copies.findLastIndex((copy) => copy.target === target);
    if (at >= 0) this.copies.splice(at, 1);
  }

  /** Frees a private block that was replaced in its table. */
  free(block: BlockId): void {
    assert(this.pool.refCountOf(block) === 1, "a private block has two references");
    this.pool.addRefs(block, -1);
    this.pool.move(block, computing, free);
    const list = this.#listOf(1);
    list[0] = block;
    this.#free(list, 1, 0);
  }

  /** Frees the private blocks of the table from `to` on, deepest first. */
  trim({ blocks, request }: Sequence, to: number): void {
    const { blocks: table, count } = blocks;
    const { pool } = this;
    const list = this.#listOf(count - to);
    let freed = 0;
    for (let i = count - 1; i >= to; i--) {
      const block = table[i];
      assert(pool.refCountOf(block) === 1, "a block of rejected tokens has two references");
      pool.addRefs(block, -1);
      pool.move(block, pool.stateOf(block), free);
      this.#log?.trim(this.#entries.now, request.id, block, i);
      list[freed++] = block;
    }
    this.#free(list, freed, 0);
    blocks.trim(to);
  }

  /**
   * Releases all blocks of the sequence, in the order of the rule `free-order`. When a reference count becomes 0, a cached
   * block becomes idle and a private one free.
   */
  release({ blocks }: Sequence): void {
    const { blocks: table, end: count } = blocks;
    const { words } = this.pool;
    const list = this.#listOf(count);
    const released = release(table, count, this.#forward, words, list);
    if (released < count) this.#freePrivate(table, count, released);
    if (released > 0) this.#index.released(list, released);
    if (this.#log) this.#logReleases(list, released, this.#log);
    blocks.release();
  }

  /**
   * Passes blocks of the table in state `free` to the allocator, deepest first; the list's first `kept` elements are in use.
   */
  #freePrivate(table: Int32Array, count: number, kept: number): void {
    const { words } = this.pool;
    const list = this.#listOf(2 * count);
    let end = kept;
    for (let i = count - 1; i >= 0; i--) if (table[i] >= 0 && words[table[i]] === freeWord) list[end++] = table[i];
    this.#free(list, end, kept);
  }

  #free(blocks: Int32Array, to: number, from: number): void {
    if (from === to) return;
    this.#entries.free(blocks, from, to);
    if (this.#log === undefined) return;
    const { now, request } = this.#entries;
    for (let i = from; i < to; i++) this.#log.release(now, request.id, blocks[i], false);
  }

  #logReleases(blocks: Int32Array, count: number, log: EventLog): void {
    const { now, request } = this.#entries;
    for (let i = 0; i < count; i++) log.release(now, request.id, blocks[i], true);
  }

  #listOf(count: number): Int32Array {
    if (count > this.#list.length) {
      const list = new Int32Array(2 * count);
      list.set(this.#list);
      this.#list = list;
    }
    return this.#list;
  }
}
