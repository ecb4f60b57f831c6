import { grown } from "../../core/grown.ts";
import type {
  BlockId,
  EntryId,
  IndexContext,
  IndexPlugin,
  Insertion,
  Match,
  PrefixIndex,
  RequestView,
} from "../../core/plugins/index.ts";
import { absent, grownForKeys } from "./contents.ts";

const { never, evicted } = absent;
const none = -1;

/** The number of leading blocks of a request that are stored as one entry. */
export type StoredBlockCount = (request: RequestView, blockTokens: number) => number;

/**
 * A table of whole prefixes, keyed by the content id of their last block, which identifies the whole prefix. An entry has
 * the number of its last block and shares no block with another entry. A lookup matches an entry completely or not at
 * all.
 */
class PromptTable implements PrefixIndex {
  evictableBlocks = 0;
  blockCount = 0;
  entryCount = 0;
  readonly #host: IndexContext["host"];
  readonly #blockTokens: number;
  readonly #storedBlocks: StoredBlockCount;
  /** By content id: the entry that ends with it, `never` or `evicted`. */
  #entryOfKey: Int32Array = new Int32Array(64).fill(never);
  // By block: its entry, and the block before it.
  #entryOfBlock: Int32Array;
  #before: Int32Array;
  // By entry: its length in blocks (0: no such entry), and how many of them are referenced.
  #length: Int32Array;
  #referencedBlocks: Int32Array;
  // A linked list of all entries, referenced or not, by last use or by insertion, the oldest first.
  readonly #byUse: boolean;
  #newer: Int32Array;
  #older: Int32Array;
  #oldest = none;
  #newest = none;
  #removedBlocks = new Int32Array(64);

  constructor({ host, blockTokens }: IndexContext, blockCount: number, storedBlocks: StoredBlockCount, byUse: boolean) {
    this.#byUse = byUse;
    this.#host = host;
    this.#blockTokens = blockTokens;
    this.#storedBlocks = storedBlocks;
    this.#entryOfBlock = new Int32Array(blockCount).fill(none);
    this.#before = new Int32Array(blockCount);
    this.#length = new Int32Array(blockCount);
    this.#referencedBlocks = new Int32Array(blockCount);
    this.#newer = new Int32Array(blockCount);
    this.#older = new Int32Array(blockCount);
  }

  stores(request: RequestView): number {
    return this.#storedBlocks(request, this.#blockTokens);
  }

  expectKeys(distinct: number): void {
    this.#entryOfKey = grownForKeys(this.#entryOfKey, distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    const entry = count === 0 ? never : this.#entryOfKey[keys[start + count - 1]];
    const isStored = entry >= 0 && this.#length[entry] === count;
    found.blocks = isStored ? count : 0;
    found.absent = count - found.blocks;
    found.evicted = 0;
    if (!isStored) {
      table.fill(none, 0, count);
      return;
    }
    let block = entry;
    for (let i = count - 1; i >= 0; i--) {
      table[i] = block;
      block = this.#before[block];
    }
  }

  matched(blocks: Int32Array): void {
    const entry = this.#entryOfBlock[blocks[0]];
    if (this.#byUse) {
      this.#unlink(entry);
      this.#link(entry);
    }
    if (this.#host.countsHits) this.#host.hit(entry);
  }

  referenced(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) {
      const entry = this.#entryOfBlock[blocks[i]];
      if (this.#referencedBlocks[entry]++ > 0) continue;
      this.#host.blocked(entry);
      this.evictableBlocks -= this.#length[entry];
    }
  }

  released(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) {
      const entry = this.#entryOfBlock[blocks[i]];
      if (--this.#referencedBlocks[entry] > 0) continue;
      this.evictableBlocks += this.#length[entry];
      this.#host.touch(entry);
      this.#host.evictable(entry);
    }
  }

  insert({ keys, start, table, from, to, partialAt, promptTokens, replacements }: Insertion): boolean {
    const key = keys[start + to - 1];
    const stored = this.#entryOfKey[key];
    if (from > 0) {
      // The beginning of the prefix is stored as a separate entry, and entries share no blocks.
      replacements.fill(none, 0, to - from);
      return false;
    }
    if (stored >= 0) {
      let block = stored;
      for (let i = to - 1; i >= 0; i--) {
        replacements[i] = i === partialAt ? none : block;
        block = this.#before[block];
      }
      return false;
    }
    const entry = table[to - 1];
    this.#entryOfKey[key] = entry;
    for (let i = 0; i < to; i++) {
      this.#entryOfBlock[table[i]] = entry;
      this.#before[table[i]] = i === 0 ? none : table[i - 1];
    }
    this.#length[entry] = this.#referencedBlocks[entry] = to;
    this.blockCount += to;
    this.entryCount++;
    this.#link(entry);
    const tokens = Math.min(to * this.#blockTokens, partialAt === to - 1 ? promptTokens : to * this.#blockTokens);
    this.#host.created(entry, tokens, tokens, key);
    return true;
  }

  evict(entry: EntryId): void {
    const length = this.#length[entry];
    this.evictableBlocks -= length;
    const blocks = this.#remove(entry);
    this.#host.evicted(blocks, length);
  }

  drop(block: BlockId): void {
    const entry = this.#entryOfBlock[block];
    const length = this.#length[entry];
    const isIdle = this.isEvictable(entry);
    this.#host.dropped(entry, isIdle);
    if (isIdle) this.evictableBlocks -= length;
    const blocks = this.#remove(entry);
    for (let i = 0; i < length; i++) this.#host.blockDropped(blocks[i]);
  }

  oldest(isPinned: (block: BlockId) => boolean): BlockId {
    let entry = this.#oldest;
    while (entry !== none && isPinned(entry)) entry = this.#newer[entry];
    return entry;
  }

  *blocks(): Iterable<BlockId> {
    for (let entry = this.#oldest; entry !== none; entry = this.#newer[entry])
      for (let block = entry; block !== none; block = this.#before[block]) yield block;
  }

  isEvictable(entry: EntryId): boolean {
    return this.#length[entry] > 0 && this.#referencedBlocks[entry] === 0;
  }

  entryOf(block: BlockId): EntryId {
    return this.#entryOfBlock[block];
  }

  grow(blockCount: number): void {
    const oldCount = this.#entryOfBlock.length;
    this.#entryOfBlock = grown(this.#entryOfBlock, blockCount).fill(none, oldCount);
    this.#before = grown(this.#before, blockCount);
    this.#length = grown(this.#length, blockCount);
    this.#referencedBlocks = grown(this.#referencedBlocks, blockCount);
    this.#newer = grown(this.#newer, blockCount);
    this.#older = grown(this.#older, blockCount);
  }

  /** Removes the entry; returns its blocks, deepest first. */
  #remove(entry: EntryId): Int32Array {
    const length = this.#length[entry];
    if (length > this.#removedBlocks.length) this.#removedBlocks = new Int32Array(2 * length);
    this.#entryOfKey[this.#host.columns.key[entry]] = evicted;
    let block = entry;
    for (let i = 0; i < length; i++) {
      this.#removedBlocks[i] = block;
      this.#entryOfBlock[block] = none;
      block = this.#before[block];
    }
    this.#unlink(entry);
    this.#length[entry] = this.#referencedBlocks[entry] = 0;
    this.blockCount -= length;
    this.entryCount--;
    return this.#removedBlocks;
  }

  /** Appends the entry to the list as the newest. */
  #link(entry: EntryId): void {
    this.#older[entry] = this.#newest;
    this.#newer[entry] = none;
    if (this.#newest === none) this.#oldest = entry;
    else this.#newer[this.#newest] = entry;
    this.#newest = entry;
  }

  #unlink(entry: EntryId): void {
    const newer = this.#newer[entry];
    const older = this.#older[entry];
    if (newer === none) this.#newest = older;
    else this.#older[newer] = older;
    if (older === none) this.#oldest = newer;
    else this.#newer[older] = newer;
  }
}

/** Rules that an index of whole prefixes supports. */
export const wholePrefixes = {
  defaults: { publish: "step", duplicates: "swap" },
  supports: {
    "full-hit": "any",
    publish: ["step", "chunk", "finish"],
    duplicates: ["swap"],
    "free-order": "any",
    reserve: "any",
    collision: "any",
    "max-entries": "any",
    "prefix-blocks": "any",
  },
} as const satisfies Pick<IndexPlugin, "defaults" | "supports">;

/** `byUse`: the rules `max-entries` and `prefix-blocks` drop the least recently used entry, else the oldest. */
export const wholePrefixIndex = (
  context: IndexContext,
  blockCount: number,
  storedBlocks: StoredBlockCount,
  byUse: boolean,
): PrefixIndex => new PromptTable(context, blockCount, storedBlocks, byUse);

export const promptTable: IndexPlugin = {
  name: "prompt-table",
  about: "one entry per prompt, matched by the identical prompt only; a partial last block is copied on write",
  source: "roseinfer (PrefixCache)",
  ...wholePrefixes,
  unit: "prompt",
  create: (context, blockCount) => wholePrefixIndex(context, blockCount, ({ promptBlocks }) => promptBlocks, true),
};
