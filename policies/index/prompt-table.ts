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
import { absent, roomFor } from "./contents.ts";

const { never, evicted } = absent;
const none = -1;

/** Blocks of a request that are stored, as one entry. */
export type StoredPart = (request: RequestView, blockTokens: number) => number;

/**
 * Whole prefixes, found by their end: what ends with a content is that content's prefix. An entry has blocks of its own,
 * shared with no other entry, and its number is that of its last block. What does not end where an entry ends finds
 * nothing, however much of it is stored.
 */
class PromptTable implements PrefixIndex {
  evictableBlocks = 0;
  blockCount = 0;
  entryCount = 0;
  readonly #host: IndexContext["host"];
  readonly #blockTokens: number;
  readonly #part: StoredPart;
  /** Entry that ends with a content, or `never` or `evicted`. */
  #entryOf: Int32Array = new Int32Array(64).fill(never);
  // By block: the entry that it belongs to, and the block before it.
  #owner: Int32Array;
  #before: Int32Array;
  // By entry: its length in blocks (0: there is no such entry), and how many of these are held.
  #length: Int32Array;
  #heldBlocks: Int32Array;
  // Entries by last use or else by age, in use or not: the oldest first.
  readonly #byUse: boolean;
  #newer: Int32Array;
  #older: Int32Array;
  #oldest = none;
  #newest = none;
  #blocks = new Int32Array(64);

  constructor({ host, blockTokens }: IndexContext, blockCount: number, part: StoredPart, byUse: boolean) {
    this.#byUse = byUse;
    this.#host = host;
    this.#blockTokens = blockTokens;
    this.#part = part;
    this.#owner = new Int32Array(blockCount).fill(none);
    this.#before = new Int32Array(blockCount);
    this.#length = new Int32Array(blockCount);
    this.#heldBlocks = new Int32Array(blockCount);
    this.#newer = new Int32Array(blockCount);
    this.#older = new Int32Array(blockCount);
  }

  stores(request: RequestView): number {
    return this.#part(request, this.#blockTokens);
  }

  expectKeys(distinct: number): void {
    this.#entryOf = roomFor(this.#entryOf, distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    const entry = count === 0 ? never : this.#entryOf[keys[start + count - 1]];
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
    const entry = this.#owner[blocks[0]];
    if (this.#byUse) {
      this.#unlink(entry);
      this.#link(entry);
    }
    if (this.#host.countsHits) this.#host.hit(entry);
  }

  referenced(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) {
      const entry = this.#owner[blocks[i]];
      if (this.#heldBlocks[entry]++ > 0) continue;
      this.#host.blocked(entry);
      this.evictableBlocks -= this.#length[entry];
    }
  }

  released(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) {
      const entry = this.#owner[blocks[i]];
      if (--this.#heldBlocks[entry] > 0) continue;
      this.evictableBlocks += this.#length[entry];
      this.#host.touch(entry);
      this.#host.evictable(entry);
    }
  }

  insert({ keys, start, table, from, to, partialAt, promptTokens, instead }: Insertion): boolean {
    const key = keys[start + to - 1];
    const stored = this.#entryOf[key];
    if (from > 0) {
      // Its beginning was found as a prefix that is stored: there is nothing to add.
      instead.fill(none, 0, to - from);
      return false;
    }
    if (stored >= 0) {
      let block = stored;
      for (let i = to - 1; i >= 0; i--) {
        instead[i] = i === partialAt ? none : block;
        block = this.#before[block];
      }
      return false;
    }
    const entry = table[to - 1];
    this.#entryOf[key] = entry;
    for (let i = 0; i < to; i++) {
      this.#owner[table[i]] = entry;
      this.#before[table[i]] = i === 0 ? none : table[i - 1];
    }
    this.#length[entry] = this.#heldBlocks[entry] = to;
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
    const blocks = this.#take(entry);
    this.#host.evicted(blocks, length);
  }

  forget(block: BlockId): void {
    const entry = this.#owner[block];
    const length = this.#length[entry];
    const isIdle = this.isEvictable(entry);
    this.#host.dropped(entry, isIdle);
    if (isIdle) this.evictableBlocks -= length;
    const blocks = this.#take(entry);
    for (let i = 0; i < length; i++) this.#host.forgotten(blocks[i]);
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
    return this.#length[entry] > 0 && this.#heldBlocks[entry] === 0;
  }

  entryOf(block: BlockId): EntryId {
    return this.#owner[block];
  }

  grow(blockCount: number): void {
    const known = this.#owner.length;
    this.#owner = grown(this.#owner, blockCount).fill(none, known);
    this.#before = grown(this.#before, blockCount);
    this.#length = grown(this.#length, blockCount);
    this.#heldBlocks = grown(this.#heldBlocks, blockCount);
    this.#newer = grown(this.#newer, blockCount);
    this.#older = grown(this.#older, blockCount);
  }

  /** Takes the entry out; returns its blocks, deepest first. */
  #take(entry: EntryId): Int32Array {
    const length = this.#length[entry];
    if (length > this.#blocks.length) this.#blocks = new Int32Array(2 * length);
    this.#entryOf[this.#host.columns.key[entry]] = evicted;
    let block = entry;
    for (let i = 0; i < length; i++) {
      this.#blocks[i] = block;
      this.#owner[block] = none;
      block = this.#before[block];
    }
    this.#unlink(entry);
    this.#length[entry] = this.#heldBlocks[entry] = 0;
    this.blockCount -= length;
    this.entryCount--;
    return this.#blocks;
  }

  /** Makes the entry the youngest. */
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

/** What an index of whole prefixes can do: it is used as a whole, or not at all. */
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

/** `byUse`: a limit drops what was used longest ago, else what was inserted longest ago. */
export const wholePrefixIndex = (
  context: IndexContext,
  blockCount: number,
  part: StoredPart,
  byUse: boolean,
): PrefixIndex => new PromptTable(context, blockCount, part, byUse);

export const promptTable: IndexPlugin = {
  name: "prompt-table",
  about:
    "one entry a prompt, found by the very same prompt; its last block may be partial, and is copied when written to",
  source: "roseinfer (PrefixCache)",
  ...wholePrefixes,
  unit: "prompt",
  create: (context, blockCount) => wholePrefixIndex(context, blockCount, ({ promptBlocks }) => promptBlocks, true),
};
