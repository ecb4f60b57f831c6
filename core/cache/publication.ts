import type { EventLog } from "../log/event-log.ts";
import { blockEnd } from "../plugins/entry-columns.ts";
import type { BlockId, Insertion, PrefixIndex } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import { publishOwn } from "./block-loops.ts";
import type { BlockRefs } from "./block-refs.ts";
import { hole } from "./block-table.ts";
import type { CacheEntries } from "./cache-entries.ts";
import type { Counters } from "./counters.ts";
import { BlockState } from "./pool.ts";
import type { Sequence } from "./request.ts";

const { computing, published } = BlockState;

/** Publishes blocks: inserts them into the index as soon as the rules allow. */
export class Publication {
  readonly #index: PrefixIndex;
  readonly #entries: CacheEntries;
  readonly #refs: BlockRefs;
  readonly #counters: Counters;
  readonly #log: EventLog | undefined;
  readonly #blockTokens: number;
  readonly #storesTails: boolean;
  readonly #insertion: { -readonly [Field in keyof Insertion]: Insertion[Field] } = {
    keys: new Uint32Array(0),
    start: 0,
    table: new Int32Array(0),
    from: 0,
    to: 0,
    promptBlocks: 0,
    promptTokens: 0,
    partialAt: -1,
    finishes: false,
    lastTokens: 0,
    replacements: new Int32Array(64),
  };

  constructor(
    index: PrefixIndex,
    entries: CacheEntries,
    refs: BlockRefs,
    counters: Counters,
    log: EventLog | undefined,
    blockTokens: number,
    storesTails: boolean,
  ) {
    this.#index = index;
    this.#entries = entries;
    this.#refs = refs;
    this.#counters = counters;
    this.#log = log;
    this.#blockTokens = blockTokens;
    this.#storesTails = storesTails;
  }

  /** Blocks of the sequence that may be published when it finishes; with `store-tail` including an incomplete last one. */
  blocksAtEnd(sequence: Sequence): number {
    const { request, computedTokens } = sequence;
    return this.#storesTails && computedTokens >= request.lastTokens
      ? request.knownBlocks
      : this.blocksAt(sequence, computedTokens);
  }

  /**
   * Number of blocks that may be published at a preemption, excluding a block whose copy-on-write copy has not been executed.
   */
  blocksAtPreemption(sequence: Sequence): number {
    const blocks = this.blocksAt(sequence, sequence.computedTokens);
    const done = Math.min(blocks, sequence.computedBlocks);
    return this.#index.stores !== undefined && done < blocks ? 0 : done;
  }

  /** Blocks of the sequence that may be published once `tokens` tokens are computed. */
  blocksAt(sequence: Sequence, tokens: number): number {
    const { request } = sequence;
    const { promptBlocks, knownBlocks, inputTokens } = request;
    if (this.#index.stores !== undefined) {
      const blocks = this.#index.stores(request);
      return tokens >= Math.min(inputTokens, blocks * this.#blockTokens) ? blocks : 0;
    }
    if (tokens >= inputTokens && knownBlocks === promptBlocks) return promptBlocks;
    const full = Math.floor(tokens / this.#blockTokens);
    return tokens >= inputTokens
      ? Math.max(promptBlocks, Math.min(full, request.wholeBlocks))
      : Math.min(full, promptBlocks);
  }

  /** Publishes the sequence's blocks before `to`, within one operation of the cache; `finishes`: it is released next. */
  publish(sequence: Sequence, to: number, now: Nanos, finishes: boolean): void {
    const { request, blocks, table } = sequence;
    const from = blocks.published;
    const insertion = this.#insertion;
    insertion.keys = request.keys;
    insertion.start = request.keyStart;
    insertion.table = table;
    insertion.from = from;
    insertion.to = to;
    insertion.promptBlocks = request.promptBlocks;
    insertion.promptTokens = request.inputTokens;
    insertion.partialAt = request.partialAt;
    insertion.finishes = finishes;
    insertion.lastTokens = request.lastTokens;
    if (to - from > insertion.replacements.length) insertion.replacements = new Int32Array(2 * (to - from));
    const storesAll = this.#index.insert(insertion);
    const { pool } = this.#refs;
    const presumed = Math.max(from, blocks.presumedTo);
    blocks.presume(0);
    if (storesAll && this.#log === undefined) {
      this.#counters.insertedBlocks += presumed - from + publishOwn(table, presumed, to, pool.words);
    } else {
      for (let i = from; i < presumed; i++) pool.move(table[i], published, computing);
      const { replacements } = insertion;
      for (let i = from; i < to; i++)
        this.#publishBlock(sequence, i, storesAll ? table[i] : replacements[i - from], now);
    }
    blocks.publish(to);
  }

  /**
   * Block i after its insertion: the index stores it (`other` is the block itself), stores `other` with the same content, or
   * neither (−1).
   */
  #publishBlock(sequence: Sequence, i: number, other: BlockId, now: Nanos): void {
    const own = sequence.table[i];
    const { pool } = this.#refs;
    if (other === hole) return;
    if (other !== own) {
      this.#replaceDuplicate(sequence, i, other);
    } else if (pool.stateOf(own) === computing) {
      pool.move(own, computing, published);
      this.#counters.insertedBlocks++;
      if (this.#log === undefined) return;
      const { request } = sequence;
      const key = request.keys[request.keyStart + i];
      this.#entries.stored(own, key, blockEnd(this.#insertion, i, this.#blockTokens));
      this.#log.publish(now, request.id, own, key, i);
    }
  }

  /** Replaces a duplicate: the sequence references `other` from now on, and its own block is freed. */
  #replaceDuplicate(sequence: Sequence, i: number, other: BlockId): void {
    const own = sequence.table[i];
    if (i === sequence.blocks.copiedAt) this.#refs.withdrawCopy(sequence, own);
    this.#log?.duplicate(this.#entries.now, sequence.request.id, own, other, i);
    this.#refs.reference(other);
    sequence.blocks.replace(i, other);
    this.#refs.free(own);
  }
}
