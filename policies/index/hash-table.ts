import type { BlockId, IndexContext, IndexPlugin, Insertion, Match, PrefixIndex } from "../../core/plugins/index.ts";
import { BlockEntries, blockEntryRules } from "./block-entries.ts";
import { absent, BlocksByContent, noPage, pageBits, pageMask } from "./contents.ts";

const { never, evicted } = absent;

/**
 * A hash table of blocks, keyed by the content of a block and of all blocks before it; an entry has the number of its
 * block. The chained hash and the comparison of contents are in `ContentIds`, which numbers contents densely and exactly,
 * so that this index finds the block of a content id in an array.
 */
class HashTable extends BlockEntries implements PrefixIndex {
  readonly remembersEvicted = true;
  readonly #duplicates: string;
  readonly #swaps: boolean;
  /** By content id: the block that stores it, `never` or `evicted`. */
  readonly #blockOf = new BlocksByContent();
  /** Under `duplicates=keep`, `adopt` and `newest`: the next block in the list of blocks with the same content. */
  readonly #nextDuplicate = new Map<BlockId, BlockId>();

  constructor(context: IndexContext) {
    super(context);
    const { duplicates } = context.rules;
    this.#duplicates = duplicates;
    this.#swaps = duplicates === "swap" || duplicates === "share";
  }

  expectKeys(distinct: number): void {
    this.#blockOf.expectKeys(distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    const { pages } = this.#blockOf;
    const shift = start | 0;
    let i = 0;
    for (; i < count; i++) {
      const key = keys[shift + i];
      const block = pages[key >>> pageBits][key & pageMask];
      if (block < 0) break;
      table[i] = block;
    }
    found.blocks = i;
    let absent = 0;
    let evictedCount = 0;
    for (; i < count; i++) {
      const key = keys[shift + i];
      const block = pages[key >>> pageBits][key & pageMask];
      table[i] = block;
      if (block >= 0) continue;
      absent++;
      evictedCount += never - block;
    }
    found.absent = absent;
    found.evicted = evictedCount;
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to } = insertion;
    const blockOf = this.#blockOf;
    const keyOf = this.host.columns.key;
    const shift = start | 0;
    let i = from | 0;
    for (let number = -1, page = noPage; i < to; i++) {
      const block = table[i];
      const key = keys[shift + i];
      if (key >>> pageBits !== number) page = blockOf.writable((number = key >>> pageBits));
      if (page[key & pageMask] >= 0) break;
      page[key & pageMask] = block;
      keyOf[block] = key;
    }
    this.blockCount += i - from;
    this.host.createdBlocks(insertion, from, i);
    if (i === to) return true;
    this.#insertRest(insertion, i);
    return false;
  }

  evictMany(entries: Int32Array, from: number, to: number): void {
    const count = to - from;
    this.evictableBlocks -= count;
    if (this.#nextDuplicate.size > 0) {
      for (let i = from; i < to; i++) this.remove(entries[i]);
      return;
    }
    const keyOf = this.host.columns.key;
    // Stored blocks are in pages of their own.
    const { pages } = this.#blockOf;
    for (let i = from | 0; i < to; i++) {
      const key = keyOf[entries[i]];
      pages[key >>> pageBits][key & pageMask] = evicted;
    }
    this.blockCount -= count;
  }

  *blocks(): Iterable<BlockId> {
    yield* this.#blockOf.blocks();
    yield* this.#nextDuplicate.values();
  }

  *duplicatesOf(block: BlockId): Iterable<BlockId> {
    let next: BlockId | undefined = this.#blockOf.at(this.host.columns.key[block]);
    for (; next !== undefined; next = this.#nextDuplicate.get(next)) yield next;
  }

  /** Inserts blocks `[first, to)` one by one; the content of some is stored already. */
  #insertRest(insertion: Insertion, first: number): void {
    const { table, from, to, replacements } = insertion;
    for (let i = from; i < first; i++) replacements[i - from] = table[i];
    for (let i = first; i < to; i++) {
      replacements[i - from] = table[i];
      if (!this.#insertOne(insertion, i)) continue;
      this.blockCount++;
      this.host.createdBlocks(insertion, i, i + 1);
    }
  }

  /** Inserts block i, whose content may be stored already; returns whether the block became an entry. */
  #insertOne({ keys, start, table, from, partialAt, replacements }: Insertion, i: number): boolean {
    const own = table[i];
    const key = keys[start + i];
    const stored = this.#blockOf.at(key);
    if (stored >= 0) {
      if (this.#isStored(own, stored)) return false;
      if (this.#swaps) {
        replacements[i - from] = i === partialAt ? -1 : stored;
        return false;
      }
      if (this.#duplicates === "replace" && !this.host.isPinned(stored)) this.drop(stored);
    }
    const first = this.#blockOf.at(key);
    if (first >= 0 && this.#duplicates !== "newest") {
      this.#appendDuplicate(first, own);
    } else {
      this.#blockOf.set(key, own);
      if (first >= 0) this.#nextDuplicate.set(own, first);
    }
    this.host.columns.key[own] = key;
    return true;
  }

  /** Whether `own` is among the blocks with the content of `first`. */
  #isStored(own: BlockId, first: BlockId): boolean {
    for (let block: BlockId | undefined = first; block !== undefined; block = this.#nextDuplicate.get(block)) {
      if (block === own) return true;
    }
    return false;
  }

  /** Appends a block to the list of blocks with the same content: a match finds the one that was inserted first. */
  #appendDuplicate(first: BlockId, own: BlockId): void {
    let last = first;
    for (let next = this.#nextDuplicate.get(last); next !== undefined; next = this.#nextDuplicate.get(last))
      last = next;
    this.#nextDuplicate.set(last, own);
  }

  protected override remove(block: BlockId): void {
    const key = this.host.columns.key[block];
    this.blockCount--;
    const after = this.#nextDuplicate.get(block);
    let before = this.#blockOf.at(key);
    if (before === block) {
      this.#blockOf.set(key, after ?? evicted);
    } else {
      while (this.#nextDuplicate.get(before) !== block) before = this.#nextDuplicate.get(before)!;
      if (after === undefined) this.#nextDuplicate.delete(before);
      else this.#nextDuplicate.set(before, after);
    }
    this.#nextDuplicate.delete(block);
  }
}

export const hashTable: IndexPlugin = {
  name: "hash-table",
  about:
    "one entry per block, found by the chained hash of the prefix that ends with it, confirmed by comparing content",
  source: "vLLM automatic prefix caching (vllm/v1/core/block_pool.py)",
  supports: { ...blockEntryRules, duplicates: "any" },
  create: (context) => new HashTable(context),
};
