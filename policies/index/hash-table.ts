import type { BlockId, EntryId, IndexContext, IndexPlugin, Insertion, PrefixIndex } from "../../core/plugins.ts";

const none = -1;

/**
 * One entry a block, found by what it and everything before it holds; entry and block have the same number. Buckets are
 * chains through the blocks themselves: a lookup reads the bucket's head and compares content, an eviction unlinks.
 */
class HashTable implements PrefixIndex {
  evictableBlocks = 0;
  blockCount = 0;
  readonly #host: IndexContext["host"];
  readonly #blockTokens: number;
  readonly #duplicates: string;
  #key: Uint32Array;
  #heads: Int32Array;
  #next: Int32Array;
  #shift: number;

  constructor({ host, rules, blockTokens }: IndexContext, blockCount: number) {
    this.#host = host;
    this.#blockTokens = blockTokens;
    this.#duplicates = rules.duplicates;
    this.#key = host.columns.key;
    const bits = Math.max(4, Math.ceil(Math.log2(blockCount)));
    this.#heads = new Int32Array(1 << bits).fill(none);
    this.#shift = 32 - bits;
    this.#next = new Int32Array(blockCount);
  }

  get entryCount(): number {
    return this.blockCount;
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array): number {
    for (let i = 0; i < count; i++) {
      const block = this.find(keys[start + i]);
      if (block === undefined) return i;
      table[i] = block;
    }
    return count;
  }

  find(key: number): BlockId | undefined {
    const keyOf = this.#key;
    const next = this.#next;
    for (let block = this.#heads[this.#bucket(key)]; block !== none; block = next[block]) {
      if (keyOf[block] === key) return block;
    }
    return undefined;
  }

  held(block: BlockId, first: boolean, hit: boolean): void {
    if (first) {
      this.evictableBlocks--;
      this.#host.blocked(block);
    }
    if (hit) this.#host.hit(block);
  }

  released(block: BlockId, last: boolean): void {
    this.#host.touch(block);
    if (last) {
      this.evictableBlocks++;
      this.#host.evictable(block);
    }
  }

  insert(insertion: Insertion): void {
    const { keys, start, table, from, to, instead, promptBlocks, promptTokens } = insertion;
    for (let i = from; i < to; i++) {
      const own = table[i];
      const key = keys[start + i];
      const stored = this.find(key);
      instead[i - from] = own;
      if (stored === own) continue;
      if (stored !== undefined && this.#duplicates === "swap") {
        instead[i - from] = stored;
        continue;
      }
      if (stored !== undefined && this.#duplicates === "replace") this.#drop(stored);
      const after = (i + 1) * this.#blockTokens;
      const end = i < promptBlocks && after > promptTokens ? promptTokens : after;
      this.#host.created(own, end, end - i * this.#blockTokens, key);
      this.#link(own, key, this.#duplicates === "replace" ? undefined : stored);
    }
  }

  evict(entry: EntryId): void {
    this.#unlink(entry);
    this.evictableBlocks--;
    this.#host.forgotten(entry);
  }

  forget(block: BlockId): void {
    this.#drop(block);
  }

  *blocks(): Iterable<BlockId> {
    for (const head of this.#heads) for (let block = head; block !== none; block = this.#next[block]) yield block;
  }

  isEvictable(entry: EntryId): boolean {
    return this.#host.refCount[entry] === 0;
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(blockCount: number): void {
    const stored = [...this.blocks()];
    this.#key = this.#host.columns.key;
    const bits = Math.ceil(Math.log2(blockCount));
    this.#heads = new Int32Array(1 << bits).fill(none);
    this.#shift = 32 - bits;
    this.#next = new Int32Array(blockCount);
    // From the last to the first, so that of equal contents the first inserted is found first again.
    for (const block of stored.reverse()) this.#link(block, this.#key[block], undefined);
  }

  #bucket(key: number): number {
    return Math.imul(key, 0x9e3779b1) >>> this.#shift;
  }

  /** Behind `stored`, which has the same content and is to be found first, or at the head of its bucket. */
  #link(block: BlockId, key: number, stored: BlockId | undefined): void {
    if (stored === undefined) {
      const bucket = this.#bucket(key);
      this.#next[block] = this.#heads[bucket];
      this.#heads[bucket] = block;
    } else {
      this.#next[block] = this.#next[stored];
      this.#next[stored] = block;
    }
    this.blockCount++;
  }

  #unlink(block: BlockId): void {
    const next = this.#next;
    const bucket = this.#bucket(this.#key[block]);
    let before = this.#heads[bucket];
    if (before === block) this.#heads[bucket] = next[block];
    else {
      while (next[before] !== block) before = next[before];
      next[before] = next[block];
    }
    this.blockCount--;
  }

  #drop(block: BlockId): void {
    this.#unlink(block);
    if (this.#host.refCount[block] === 0) this.evictableBlocks--;
    this.#host.dropped(block);
    this.#host.forgotten(block);
  }
}

export const hashTable: IndexPlugin = {
  name: "hash-table",
  about: "one entry a block, keyed by the chained hash of everything up to its end, confirmed by content",
  source: "vLLM automatic prefix caching (vllm/v1/core/block_pool.py)",
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: "any",
    "free-order": "any",
    reserve: "any",
    collision: "any",
  },
  create: (context, blockCount) => new HashTable(context, blockCount),
};
