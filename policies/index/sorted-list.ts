import { grown } from "../../core/grown.ts";
import type { BlockId, IndexPlugin, Insertion, Match, PrefixIndex } from "../../core/plugins/index.ts";
import { BlockEntries, blockEntryRules } from "./block-entries.ts";

const none = -1;

/**
 * A sorted list of prefixes, one for each cached block, found by binary search. The order is that of the content ids, each of
 * which identifies a block and all blocks before it; an entry has the number of its block. A lookup costs O(log n) a block, an
 * insertion and an eviction O(n), because the elements behind are moved.
 *
 * Contents are numbered in the order of their first occurrence, so that new contents are appended, and the blocks of a prompt
 * are often neighbours: the place after the previous block is compared first.
 */
class SortedList extends BlockEntries implements PrefixIndex {
  /** Content ids in ascending order, and the block of each; the first `blockCount` elements are valid. */
  #keys = new Uint32Array(64);
  #blocks = new Int32Array(64);

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    let place = none;
    let i = 0;
    for (; i < count; i++) {
      place = this.#placeOf(keys[start + i], place + 1);
      if (!this.#isAt(place, keys[start + i])) break;
      table[i] = this.#blocks[place];
    }
    found.blocks = i;
    found.evicted = 0;
    let absent = 0;
    for (; i < count; i++) {
      table[i] = this.#blockOf(keys[start + i]);
      if (table[i] === none) absent++;
    }
    found.absent = absent;
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to, partialAt, replacements } = insertion;
    const host = this.host;
    let allStored = true;
    for (let i = from; i < to; i++) {
      const own = table[i];
      const key = keys[start + i];
      const place = this.#placeOf(key, this.blockCount);
      replacements[i - from] = own;
      if (this.#isAt(place, key)) {
        const stored = this.#blocks[place];
        if (stored === own) continue;
        replacements[i - from] = i === partialAt ? none : stored;
        allStored = false;
        continue;
      }
      this.#insertAt(place, key, own);
      host.columns.key[own] = key;
      host.createdBlocks(insertion, i, i + 1);
    }
    return allStored;
  }

  evictMany(entries: Int32Array, from: number, to: number): void {
    const keyOf = this.host.columns.key;
    for (let i = from; i < to; i++) this.#blocks[this.#placeOf(keyOf[entries[i]], 0)] = none;
    let kept = 0;
    for (let place = 0; place < this.blockCount; place++) {
      if (this.#blocks[place] === none) continue;
      this.#keys[kept] = this.#keys[place];
      this.#blocks[kept++] = this.#blocks[place];
    }
    this.blockCount = kept;
    this.evictableBlocks -= to - from;
  }

  blocks(): Iterable<BlockId> {
    return this.#blocks.subarray(0, this.blockCount);
  }

  expectKeys(): void {}

  #isAt(place: number, key: number): boolean {
    return place < this.blockCount && this.#keys[place] === key;
  }

  #blockOf(key: number): BlockId {
    const place = this.#placeOf(key, this.blockCount);
    return this.#isAt(place, key) ? this.#blocks[place] : none;
  }

  /** Place of the first content id that is not below `key`; `guess` is compared before the search. */
  #placeOf(key: number, guess: number): number {
    const keys = this.#keys;
    let low = 0;
    let high = this.blockCount;
    if (guess > 0 && guess <= high && keys[guess - 1] < key) {
      if (guess === high || keys[guess] >= key) return guess;
      low = guess + 1;
    }
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (keys[middle] < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #insertAt(place: number, key: number, block: BlockId): void {
    const count = this.blockCount++;
    if (count === this.#keys.length) {
      this.#keys = grown(this.#keys, 2 * count);
      this.#blocks = grown(this.#blocks, 2 * count);
    }
    if (place < count) {
      this.#keys.copyWithin(place + 1, place, count);
      this.#blocks.copyWithin(place + 1, place, count);
    }
    this.#keys[place] = key;
    this.#blocks[place] = block;
  }

  protected override remove(block: BlockId): void {
    const place = this.#placeOf(this.host.columns.key[block], 0);
    this.#keys.copyWithin(place, place + 1, this.blockCount);
    this.#blocks.copyWithin(place, place + 1, this.blockCount);
    this.blockCount--;
  }
}

export const sortedList: IndexPlugin = {
  name: "sorted-list",
  about: "one entry per block, in a list that is sorted by prefix and searched by bisection: the simplest index",
  source: "named in LMDeploy's issue 1407, beside hash table and radix tree",
  defaults: { duplicates: "swap" },
  supports: { ...blockEntryRules, duplicates: ["swap", "share"] },
  create: (context) => new SortedList(context),
};
