import { grown } from "../../core/grown.ts";
import type {
  BlockId,
  EntryId,
  IndexContext,
  IndexPlugin,
  Insertion,
  LeafIndex,
  Match,
  PartMatch,
  PrefixIndex,
} from "../../core/plugins/index.ts";
import type { BlockContents } from "../../core/trace/content.ts";
import { absent, matchPath, roomFor } from "./contents.ts";

const { never, evicted } = absent;

const none = -1;

/**
 * A trie with one block an edge; entry and block have the same number. A block is stored only below blocks that its
 * request holds, so whoever holds a block holds the path to it, and an idle block has nothing but idle blocks below.
 *
 * An edge is followed by content id, which stands for the block's tokens and the whole path above (compared where the id
 * was given): one array finds the child, whatever the number of its siblings.
 */
class BlockTrie implements PrefixIndex, LeafIndex {
  readonly remembersEvicted = true;
  readonly leaves: LeafIndex | undefined;
  evictableBlocks = 0;
  blockCount = 0;
  readonly #host: IndexContext["host"];
  /** Any idle block may be evicted, and all below it go with it. */
  readonly #any: boolean;
  #victims = new Int32Array(16);
  /** Block that holds a content, or `never` or `evicted`. */
  #blockOf: Int32Array = new Int32Array(64).fill(never);
  /** Content of each stored block. */
  #keyOf: Uint32Array;
  /** Block above, and first block below; the others below follow as its siblings. */
  #above: Int32Array;
  #below: Int32Array;
  /** First block that begins a prompt. */
  #top: BlockId = none;
  /** Siblings; `none` for blocks that are not stored, so that a new path, which has none, need not write them. */
  #next: Int32Array;
  #previous: Int32Array;

  constructor({ host, rules }: IndexContext, blockCount: number) {
    this.#host = host;
    this.#any = rules.victims === "any";
    this.leaves = this.#any ? undefined : this;
    this.#keyOf = host.columns.key;
    this.#above = new Int32Array(blockCount);
    this.#below = new Int32Array(blockCount);
    this.#next = new Int32Array(blockCount).fill(none);
    this.#previous = new Int32Array(blockCount).fill(none);
  }

  get entryCount(): number {
    return this.blockCount;
  }

  expectKeys(distinct: number): void {
    this.#blockOf = roomFor(this.#blockOf, distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    matchPath(this.#blockOf, this.#above, keys, start, count, table, found);
  }

  matchPart(above: BlockId, key: number, contents: BlockContents, found: PartMatch): void {
    const keyOf = this.#keyOf;
    found.tokens = 0;
    for (let block = above === none ? this.#top : this.#below[above]; block !== none; block = this.#next[block]) {
      const tokens = contents.commonTokens(keyOf[block], key);
      if (tokens <= found.tokens || !found.isUsable(block)) continue;
      found.block = block;
      found.tokens = tokens;
      if (tokens >= found.maxTokens) return;
    }
  }

  isLeaf(block: BlockId): boolean {
    return this.#below[block] === none;
  }

  matched(blocks: Int32Array, count: number): void {
    if (this.#host.countsHits) for (let i = 0; i < count; i++) this.#host.hit(blocks[i]);
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    // Of one path only the end can be a leaf.
    for (let i = this.#any ? 0 : count - 1; i < count; i++) {
      if (this.#any || this.#below[blocks[i]] === none) this.#host.blocked(blocks[i]);
    }
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    if (this.#any) {
      this.#host.released(blocks, count);
      return;
    }
    this.#host.touchMany(blocks, count);
    // The deepest comes first or last.
    const [first, last] = [blocks[0], blocks[count - 1]];
    if (this.#below[first] === none) this.#host.evictable(first);
    else if (this.#below[last] === none) this.#host.evictable(last);
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to } = insertion;
    const shift = start | 0;
    const blockOf = this.#blockOf;
    const first = from | 0;
    let above: number = none;
    if (first > 0) {
      above = table[first - 1];
      if (blockOf[keys[shift + first - 1]] !== above) {
        insertion.instead.fill(none, 0, to - first);
        return false;
      }
    }
    const keyOf = this.#keyOf;
    const aboveOf = this.#above;
    const belowOf = this.#below;
    let i = first;
    for (; i < to; i++) {
      const block = table[i];
      const key = keys[shift + i];
      if (blockOf[key] >= 0) break;
      blockOf[key] = block;
      keyOf[block] = key;
      aboveOf[block] = above;
      if (i > first) belowOf[above] = block;
      above = block;
    }
    if (i > first) {
      belowOf[above] = none;
      this.#link(table[first]);
      this.blockCount += i - first;
      this.#host.createdBlocks(insertion, first, i);
    }
    if (i === to) return true;
    this.#insertRest(insertion, i);
    return false;
  }

  evict(entry: EntryId): void {
    let count = 0;
    // What is below an idle block is idle, and goes with it.
    for (let end = this.#deepest(entry); end !== entry; ) {
      const above = this.#above[end];
      this.#host.dropped(end, true);
      this.#take(count++, end);
      end = this.#deepest(above);
    }
    const above = this.#take(count++, entry);
    this.#host.evicted(this.#victims, count);
    if (above !== none) this.#host.evictable(above);
  }

  #take(at: number, block: BlockId): EntryId {
    if (at === this.#victims.length) this.#victims = grown(this.#victims, 2 * at);
    this.#victims[at] = block;
    return this.evictLeaf(block);
  }

  evictLeaf(entry: EntryId): EntryId {
    this.evictableBlocks--;
    return this.#remove(entry);
  }

  forget(block: BlockId): void {
    // What is below it can be reached no longer.
    for (let end = this.#deepest(block); end !== block; ) {
      const above = this.#above[end];
      this.#drop(end);
      end = this.#deepest(above);
    }
    this.#drop(block);
  }

  *blocks(): Iterable<BlockId> {
    for (const block of this.#blockOf) if (block >= 0) yield block;
  }

  isEvictable(entry: EntryId): boolean {
    return this.#host.isIdle(entry) && (this.#any || this.#below[entry] === none);
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(blockCount: number): void {
    this.#keyOf = this.#host.columns.key;
    this.#above = grown(this.#above, blockCount);
    this.#below = grown(this.#below, blockCount);
    const known = this.#next.length;
    this.#next = grown(this.#next, blockCount).fill(none, known);
    this.#previous = grown(this.#previous, blockCount).fill(none, known);
  }

  /** From block i on, where some content is stored already, one by one. */
  #insertRest(insertion: Insertion, first: number): void {
    const { keys, start, table, from, to, partialAt, instead } = insertion;
    for (let i = from; i < first; i++) instead[i - from] = table[i];
    let above = first === 0 ? none : table[first - 1];
    for (let i = first; i < to; i++) {
      const own = table[i];
      const key = keys[start + i];
      let stored = this.#blockOf[key];
      if (stored < 0) {
        this.#blockOf[key] = stored = own;
        this.#keyOf[own] = key;
        this.#above[own] = above;
        this.#below[own] = none;
        this.#link(own);
        this.blockCount++;
        this.#host.createdBlocks(insertion, i, i + 1);
      } else if (stored !== own && (i === partialAt || this.#above[stored] !== above)) {
        // It stays the request's own, unknown to others, and with it all that would hang below the one that is stored.
        instead.fill(none, i - from, to - from);
        return;
      }
      instead[i - from] = above = stored;
    }
  }

  /** Makes the block the first of those below its parent. */
  #link(block: BlockId): void {
    const above = this.#above[block];
    const first = above === none ? this.#top : this.#below[above];
    if (above === none) this.#top = block;
    else this.#below[above] = block;
    if (first !== none) {
      this.#next[block] = first;
      this.#previous[first] = block;
    }
    if (above === none) return;
    // A block that is about to be held instead of a duplicate: a leaf no longer.
    if (first === none && !this.#any && this.#host.isIdle(above)) this.#host.blocked(above);
  }

  /** The block may have siblings. */
  #unlink(block: BlockId, above: BlockId, next: BlockId): void {
    const previous = this.#previous[block];
    if (previous !== none) this.#next[previous] = next;
    else if (above !== none) this.#below[above] = next;
    else this.#top = next;
    if (next !== none) this.#previous[next] = previous;
    this.#next[block] = this.#previous[block] = none;
  }

  /** Takes the block out; returns the one above it, if that may be evicted now and could not before. */
  #remove(block: BlockId): EntryId {
    const above = this.#above[block];
    const next = this.#next[block];
    if (above !== none && next === none && this.#below[above] === block) this.#below[above] = none;
    else this.#unlink(block, above, next);
    this.#blockOf[this.#keyOf[block]] = evicted;
    this.blockCount--;
    return above !== none && this.#below[above] === none && !this.#any && this.#host.isIdle(above) ? above : none;
  }

  /** The end of one of the paths below a block, or the block itself; without a stack, for paths can be long. */
  #deepest(block: BlockId): BlockId {
    const below = this.#below;
    while (below[block] !== none) block = below[block];
    return block;
  }

  #drop(block: BlockId): void {
    const host = this.#host;
    const idle = host.isIdle(block);
    host.dropped(block, this.isEvictable(block));
    const above = this.#remove(block);
    if (idle) this.evictableBlocks--;
    host.forgotten(block);
    if (above !== none) host.evictable(above);
  }
}

export const blockTrie: IndexPlugin = {
  name: "block-trie",
  about: "a trie with one block an edge; what nothing extends is evicted first",
  source: "LMDeploy (issue 1407, PR 1429); TensorRT-LLM",
  defaults: { victims: "leaf", duplicates: "swap" },
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: ["swap"],
    victims: "any",
    "free-order": "any",
    reserve: "any",
    collision: "any",
    partial: "any",
    "store-tail": "any",
    "free-queue": "any",
  },
  create: (context, blockCount) => new BlockTrie(context, blockCount),
};
