import type { BlockId, EntryId, IndexContext, IndexPlugin, Insertion, Match, PrefixIndex } from "../../../index.ts";

/** A Map from content to block, which stores the first of several blocks with equal content. */
class MapIndex implements PrefixIndex {
  evictableBlocks = 0;
  readonly #host: IndexContext["host"];
  readonly #blockOf = new Map<number, BlockId>();

  constructor({ host }: IndexContext) {
    this.#host = host;
  }

  get blockCount(): number {
    return this.#blockOf.size;
  }

  get entryCount(): number {
    return this.#blockOf.size;
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    found.blocks = found.absent = found.evicted = 0;
    for (let i = 0; i < count; i++) {
      table[i] = this.#blockOf.get(keys[start + i]) ?? -1;
      if (table[i] < 0) found.absent++;
      else if (found.absent === 0) found.blocks++;
    }
  }

  matched(blocks: Int32Array, count: number): void {
    if (this.#host.countsHits) for (let i = 0; i < count; i++) this.#host.hit(blocks[i]);
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    for (let i = 0; i < count; i++) this.#host.blocked(blocks[i]);
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    this.#host.released(blocks, count);
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to, partialAt, replacements } = insertion;
    let unchanged = true;
    for (let i = from; i < to; i++) {
      const key = keys[start + i];
      const stored = this.#blockOf.get(key);
      replacements[i - from] = table[i];
      if (stored === undefined) {
        this.#blockOf.set(key, table[i]);
        this.#host.columns.key[table[i]] = key;
        this.#host.createdBlocks(insertion, i, i + 1);
      } else if (stored !== table[i]) {
        replacements[i - from] = i === partialAt ? -1 : stored;
        unchanged = false;
      }
    }
    return unchanged;
  }

  evict(entry: EntryId): void {
    this.#blockOf.delete(this.#host.columns.key[entry]);
    this.evictableBlocks--;
    this.#host.evicted(Int32Array.of(entry), 1);
  }

  drop(block: BlockId): void {
    const isIdle = this.#host.isIdle(block);
    this.#blockOf.delete(this.#host.columns.key[block]);
    if (isIdle) this.evictableBlocks--;
    this.#host.dropped(block, isIdle);
    this.#host.blockDropped(block);
  }

  blocks(): Iterable<BlockId> {
    return this.#blockOf.values();
  }

  isEvictable(entry: EntryId): boolean {
    return this.#host.isIdle(entry);
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(): void {}

  expectKeys(): void {}
}

const mapIndex: IndexPlugin = {
  name: "map-index",
  about: "a Map from content to block",
  source: "test",
  defaults: { duplicates: "swap" },
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: ["swap"],
    "free-order": "any",
    reserve: "any",
    collision: "any",
  },
  create: (context) => new MapIndex(context),
};

export default mapIndex;
