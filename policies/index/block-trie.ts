import { grown } from "../../core/grown.ts";
import type {
  BlockId,
  EntryId,
  IndexContext,
  IndexPlugin,
  Insertion,
  LeafIndex,
  Match,
  PartialMatch,
  PrefixIndex,
} from "../../core/plugins/index.ts";
import type { BlockContents } from "../../core/trace/content.ts";
import { absent, BlocksByContent, matchPath, noPage, pageBits, pageMask } from "./contents.ts";

const { evicted } = absent;

const none = -1;

/**
 * A trie of blocks: each node is a block, and an entry has the number of its block. A block is inserted only below blocks
 * that its request references, so all ancestors of a referenced block are referenced and all descendants of an idle block
 * are idle.
 *
 * A content id identifies a block's tokens and the whole path to it, so one array indexed by content id finds a child in
 * O(1), whatever the number of its siblings.
 */
class BlockTrie implements PrefixIndex, LeafIndex {
  readonly remembersEvicted = true;
  readonly leaves: LeafIndex | undefined;
  evictableBlocks = 0;
  blockCount = 0;
  readonly #host: IndexContext["host"];
  /** Rule `victims=any`: every idle block may be evicted, and its descendants are evicted with it. */
  readonly #anyVictim: boolean;
  #victims = new Int32Array(16);
  /** By content id: the block that stores it, `never` or `evicted`. */
  readonly #blockOf = new BlocksByContent();
  /** By stored block: its content id. */
  #keyOf: Uint32Array;
  /** By block: its parent and its first child; the other children are linked as siblings of the first. */
  #parent: Int32Array;
  #firstChild: Int32Array;
  /** First of the blocks without a parent. */
  #firstRoot: BlockId = none;
  /** Siblings; `none` for blocks that are not stored, so that inserting a new path need not write them. */
  #next: Int32Array;
  #previous: Int32Array;

  constructor({ host, rules }: IndexContext, blockCount: number) {
    this.#host = host;
    this.#anyVictim = rules.victims === "any";
    this.leaves = this.#anyVictim ? undefined : this;
    this.#keyOf = host.columns.key;
    this.#parent = new Int32Array(blockCount);
    this.#firstChild = new Int32Array(blockCount);
    this.#next = new Int32Array(blockCount).fill(none);
    this.#previous = new Int32Array(blockCount).fill(none);
  }

  get entryCount(): number {
    return this.blockCount;
  }

  expectKeys(distinct: number): void {
    this.#blockOf.expectKeys(distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    matchPath(this.#blockOf.pages, this.#parent, keys, start, count, table, found);
  }

  matchPartial(parent: BlockId, key: number, contents: BlockContents, found: PartialMatch): void {
    const keyOf = this.#keyOf;
    found.tokens = 0;
    for (
      let block = parent === none ? this.#firstRoot : this.#firstChild[parent];
      block !== none;
      block = this.#next[block]
    ) {
      const tokens = contents.commonTokens(keyOf[block], key);
      if (tokens <= found.tokens || !found.isUsable(block)) continue;
      found.block = block;
      found.tokens = tokens;
      if (tokens >= found.maxTokens) return;
    }
  }

  isLeaf(block: BlockId): boolean {
    return this.#firstChild[block] === none;
  }

  matched(blocks: Int32Array, count: number): void {
    if (this.#host.countsHits) for (let i = 0; i < count; i++) this.#host.hit(blocks[i]);
  }

  referenced(blocks: Int32Array, count: number): void {
    this.evictableBlocks -= count;
    // Only the end of a path can be a leaf.
    for (let i = this.#anyVictim ? 0 : count - 1; i < count; i++) {
      if (this.#anyVictim || this.#firstChild[blocks[i]] === none) this.#host.blocked(blocks[i]);
    }
  }

  released(blocks: Int32Array, count: number): void {
    this.evictableBlocks += count;
    if (this.#anyVictim) {
      this.#host.released(blocks, count);
      return;
    }
    this.#host.touchMany(blocks, count);
    // The deepest block is the first or the last one, by the rule `free-order`.
    const [first, last] = [blocks[0], blocks[count - 1]];
    if (this.#firstChild[first] === none) this.#host.evictable(first);
    else if (this.#firstChild[last] === none) this.#host.evictable(last);
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to } = insertion;
    const shift = start | 0;
    const blockOf = this.#blockOf;
    const first = from | 0;
    let parent: number = none;
    if (first > 0) {
      parent = table[first - 1];
      if (blockOf.at(keys[shift + first - 1]) !== parent) {
        insertion.replacements.fill(none, 0, to - first);
        return false;
      }
    }
    const keyOf = this.#keyOf;
    const parentOf = this.#parent;
    const firstChildOf = this.#firstChild;
    let i = first;
    for (let number = none, page = noPage; i < to; i++) {
      const block = table[i];
      const key = keys[shift + i];
      if (key >>> pageBits !== number) page = blockOf.writable((number = key >>> pageBits));
      if (page[key & pageMask] >= 0) break;
      page[key & pageMask] = block;
      keyOf[block] = key;
      parentOf[block] = parent;
      if (i > first) firstChildOf[parent] = block;
      parent = block;
    }
    if (i > first) {
      firstChildOf[parent] = none;
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
    // The descendants of an idle block are idle and are evicted with it.
    for (let end = this.#deepest(entry); end !== entry; ) {
      const parent = this.#parent[end];
      this.#host.dropped(end, true);
      this.#evictInto(count++, end);
      end = this.#deepest(parent);
    }
    const parent = this.#evictInto(count++, entry);
    this.#host.evicted(this.#victims, count);
    if (parent !== none) this.#host.evictable(parent);
  }

  #evictInto(at: number, block: BlockId): EntryId {
    if (at === this.#victims.length) this.#victims = grown(this.#victims, 2 * at);
    this.#victims[at] = block;
    return this.evictLeaf(block);
  }

  evictLeaf(entry: EntryId): EntryId {
    this.evictableBlocks--;
    return this.#remove(entry);
  }

  drop(block: BlockId): void {
    // Its descendants cannot be matched any more.
    for (let end = this.#deepest(block); end !== block; ) {
      const parent = this.#parent[end];
      this.#drop(end);
      end = this.#deepest(parent);
    }
    this.#drop(block);
  }

  *blocks(): Iterable<BlockId> {
    yield* this.#blockOf.blocks();
  }

  isEvictable(entry: EntryId): boolean {
    return this.#host.isIdle(entry) && (this.#anyVictim || this.#firstChild[entry] === none);
  }

  entryOf(block: BlockId): EntryId {
    return block;
  }

  grow(blockCount: number): void {
    this.#keyOf = this.#host.columns.key;
    this.#parent = grown(this.#parent, blockCount);
    this.#firstChild = grown(this.#firstChild, blockCount);
    const oldCount = this.#next.length;
    this.#next = grown(this.#next, blockCount).fill(none, oldCount);
    this.#previous = grown(this.#previous, blockCount).fill(none, oldCount);
  }

  /** Inserts blocks `[first, to)` one by one; the content of some is stored already. */
  #insertRest(insertion: Insertion, first: number): void {
    const { keys, start, table, from, to, partialAt, replacements } = insertion;
    for (let i = from; i < first; i++) replacements[i - from] = table[i];
    let parent = first === 0 ? none : table[first - 1];
    for (let i = first; i < to; i++) {
      const own = table[i];
      const key = keys[start + i];
      let stored = this.#blockOf.at(key);
      if (stored < 0) {
        stored = own;
        this.#blockOf.set(key, own);
        this.#keyOf[own] = key;
        this.#parent[own] = parent;
        this.#firstChild[own] = none;
        this.#link(own);
        this.blockCount++;
        this.#host.createdBlocks(insertion, i, i + 1);
      } else if (stored !== own && (i === partialAt || this.#parent[stored] !== parent)) {
        // This block and those after it stay private: the stored block is on another path, or this one is still written to.
        replacements.fill(none, i - from, to - from);
        return;
      }
      replacements[i - from] = parent = stored;
    }
  }

  /** Makes the block the first child of its parent. */
  #link(block: BlockId): void {
    const parent = this.#parent[block];
    const first = parent === none ? this.#firstRoot : this.#firstChild[parent];
    if (parent === none) this.#firstRoot = block;
    else this.#firstChild[parent] = block;
    if (first !== none) {
      this.#next[block] = first;
      this.#previous[first] = block;
    }
    if (parent === none) return;
    // The parent is the stored block that the request is about to reference instead of its duplicate; it stops being a leaf.
    if (first === none && !this.#anyVictim && this.#host.isIdle(parent)) this.#host.blocked(parent);
  }

  /** Unlinks a block that may have siblings. */
  #unlink(block: BlockId, parent: BlockId, next: BlockId): void {
    const previous = this.#previous[block];
    if (previous !== none) this.#next[previous] = next;
    else if (parent !== none) this.#firstChild[parent] = next;
    else this.#firstRoot = next;
    if (next !== none) this.#previous[next] = previous;
    this.#next[block] = this.#previous[block] = none;
  }

  /** Removes the block; returns its parent if that has become evictable, else `none`. */
  #remove(block: BlockId): EntryId {
    const parent = this.#parent[block];
    const next = this.#next[block];
    if (parent !== none && next === none && this.#firstChild[parent] === block) this.#firstChild[parent] = none;
    else this.#unlink(block, parent, next);
    this.#blockOf.set(this.#keyOf[block], evicted);
    this.blockCount--;
    return parent !== none && this.#firstChild[parent] === none && !this.#anyVictim && this.#host.isIdle(parent)
      ? parent
      : none;
  }

  /** The leaf at the end of the path of first children, or the block itself if it is a leaf; iterative, as paths are long. */
  #deepest(block: BlockId): BlockId {
    const firstChild = this.#firstChild;
    while (firstChild[block] !== none) block = firstChild[block];
    return block;
  }

  #drop(block: BlockId): void {
    const host = this.#host;
    const idle = host.isIdle(block);
    host.dropped(block, this.isEvictable(block));
    const parent = this.#remove(block);
    if (idle) this.evictableBlocks--;
    host.blockDropped(block);
    if (parent !== none) host.evictable(parent);
  }
}

export const blockTrie: IndexPlugin = {
  name: "block-trie",
  about: "a trie with one block per node; leaves are evicted first",
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
