import { assert } from "../../core/errors.ts";
import { grown } from "../../core/grown.ts";
import { blockEnd } from "../../core/plugins/entry-columns.ts";
import type {
  BlockId,
  EntryId,
  IndexContext,
  IndexPlugin,
  Insertion,
  Match,
  PrefixIndex,
} from "../../core/plugins/index.ts";
import { absent, BlocksByContent, matchPath, noPage, pageBits, pageMask } from "./contents.ts";

const { evicted } = absent;

const none = -1;
/** Initial capacity in nodes; most nodes have many blocks. */
const initialNodes = 256;

/**
 * A radix tree: an entry is a node with a run of consecutive blocks. A node is split where another prefix ends or diverges
 * inside its run, so a node's blocks are either all referenced or all unreferenced. Only leaves are evictable, from their
 * end. The rule `node-match=renew` renews `lower` when a request matches `upper`.
 *
 *   before   [0 1 2 3 4 5 6 7]           one node
 *   after    [0 1 2] ── [3 4 5 6 7]      `upper`, a new entry, and `lower`, which keeps its number
 *                   └── [3' 4']
 *
 * With the rule `node-match=whole` a request references a part of a node without splitting it; the node is split where a
 * prompt that diverges is inserted. The other blocks of a referenced node are unreferenced and not evictable.
 *
 * As in a block trie, a block is inserted only below blocks that its request references. A content id identifies a block's
 * tokens and the whole path to it, so one array indexed by content id finds any block.
 */
class RadixTree implements PrefixIndex {
  readonly remembersEvicted = true;
  evictableBlocks = 0;
  blockCount = 0;
  entryCount = 0;
  readonly #host: IndexContext["host"];
  readonly #blockTokens: number;
  readonly #unit: string;
  /** Rule `node-match`: the rest of a matched node is renewed; a matched node is not split. */
  readonly #renews: boolean;
  readonly #whole: boolean;
  /** Rule `duplicates=free`. */
  readonly #freesLast: boolean;
  readonly evictableAlong: PrefixIndex["evictableAlong"];
  /** By content id: the block that stores it, `never` or `evicted`. */
  readonly #blockOf = new BlocksByContent();
  // By block: its content id, its node, and the block before it in the prompt.
  #keyOf: Uint32Array;
  #nodeOf: Int32Array;
  #before: Int32Array;
  // By node: its last block, its length in blocks (0: no such node), how many of them are referenced, and its start and
  // end, in tokens of the prompt.
  #last: Int32Array = new Int32Array(initialNodes);
  #length: Int32Array = new Int32Array(initialNodes);
  #referencedBlocks: Int32Array = new Int32Array(initialNodes);
  #start: Uint32Array = new Uint32Array(initialNodes);
  #end: Uint32Array = new Uint32Array(initialNodes);
  // By node: its parent, its first child and its siblings. Nodes without a parent are not linked as siblings.
  #parent: Int32Array = new Int32Array(initialNodes);
  #firstChild: Int32Array = new Int32Array(initialNodes);
  #next: Int32Array = new Int32Array(initialNodes);
  #previous: Int32Array = new Int32Array(initialNodes);
  /** Numbers of removed nodes, to be used again, and (`#unused`) the first number that was never used. */
  #free: Int32Array = new Int32Array(initialNodes);
  #freeCount = 0;
  #victims = new Int32Array(initialNodes);
  #unused = 0;

  constructor({ host, rules, blockTokens }: IndexContext, blockCount: number) {
    this.#host = host;
    this.#blockTokens = blockTokens;
    this.#unit = rules["victim-unit"];
    this.#renews = rules["node-match"] === "renew";
    this.#whole = rules["node-match"] === "whole";
    this.#freesLast = rules.duplicates === "free";
    this.evictableAlong = this.#whole ? (blocks, count) => this.#evictableIn(blocks, count) : undefined;
    this.#keyOf = new Uint32Array(blockCount);
    this.#nodeOf = new Int32Array(blockCount);
    this.#before = new Int32Array(blockCount);
  }

  expectKeys(distinct: number): void {
    this.#blockOf.expectKeys(distinct);
  }

  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void {
    matchPath(this.#blockOf.pages, this.#before, keys, start, count, table, found);
  }

  isLeaf(block: BlockId): boolean {
    const node = this.#nodeOf[block];
    return this.#last[node] === block && this.#firstChild[node] === none;
  }

  cut(blocks: Int32Array, count: number): void {
    if (!this.#whole) this.#splitAfter(blocks[count - 1]);
  }

  /** Blocks of unreferenced nodes on the path. */
  #evictableIn(blocks: Int32Array, count: number): number {
    let evictableBlocks = 0;
    for (let i = 0; i < count; ) {
      const node = this.#nodeOf[blocks[i]];
      const length = this.#length[node];
      if (this.#referencedBlocks[node] === 0) evictableBlocks += length;
      i += length;
    }
    return evictableBlocks;
  }

  matched(blocks: Int32Array, count: number): void {
    if (!this.#host.countsHits) return;
    let last = none;
    for (let i = 0; i < count; i++) {
      const node = this.#nodeOf[blocks[i]];
      if (node !== last) this.#host.hit(node);
      last = node;
    }
  }

  referenced(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; ) {
      const node = this.#nodeOf[blocks[i]];
      const before = this.#referencedBlocks[node];
      // The whole of an unreferenced node, the beginning of the last one, or single blocks that are referenced instead of duplicates.
      const length = Math.min(count - i, this.#length[node] - before);
      if (before === 0) {
        this.evictableBlocks -= this.#length[node];
        if (this.#firstChild[node] === none) this.#host.blocked(node);
      }
      this.#referencedBlocks[node] = before + length;
      i += length;
    }
  }

  released(blocks: Int32Array, count: number): void {
    for (let i = 0; i < count; ) {
      const node = this.#nodeOf[blocks[i]];
      const first = i;
      if (!this.#whole) i += this.#referencedBlocks[node];
      else while (i < count && this.#nodeOf[blocks[i]] === node) i++;
      assert(i <= count && this.#nodeOf[blocks[i - 1]] === node, "a node was referenced in part");
      this.#referencedBlocks[node] -= i - first;
      this.#host.touch(node);
      if (this.#referencedBlocks[node] === 0) this.#becomesIdle(node);
    }
  }

  /** No request references the node any more. */
  #becomesIdle(node: EntryId): void {
    this.evictableBlocks += this.#length[node];
    if (this.#firstChild[node] === none) this.#host.evictable(node);
  }

  insert(insertion: Insertion): boolean {
    const { keys, start, table, from, to } = insertion;
    const parentBlock = from === 0 ? none : table[from - 1];
    if (parentBlock !== none && this.#blockOf.at(keys[start + from - 1]) !== parentBlock) {
      insertion.replacements.fill(none, 0, to - from);
      return false;
    }
    const end = this.#insertNode(insertion, parentBlock, from);
    if (end === to) return true;
    this.#insertRest(insertion, end);
    return false;
  }

  evict(node: EntryId, wantedBlocks: number): void {
    const length = this.#length[node];
    const atMost = this.#unit === "node" ? length : this.#unit === "block" ? 1 : wantedBlocks;
    const count = Math.min(atMost, length);
    if (count > this.#victims.length) this.#victims = new Int32Array(2 * count);
    const blocks = this.#victims;
    // Stored blocks are in pages of their own.
    const { pages } = this.#blockOf;
    const keyOf = this.#keyOf;
    const before = this.#before;
    let block = this.#last[node];
    for (let i = 0; i < count; i++) {
      blocks[i] = block;
      const key = keyOf[block];
      pages[key >>> pageBits][key & pageMask] = evicted;
      block = before[block];
    }
    this.#host.evicted(blocks, count);
    this.blockCount -= count;
    this.evictableBlocks -= count;
    if (count === length) {
      this.#removeNode(node);
    } else {
      this.#shorten(node, block, count);
      this.#host.evictable(node);
    }
  }

  drop(block: BlockId): void {
    const node = this.#nodeOf[block];
    const before = this.#before[block];
    if (this.#length[node] > 1 && this.#last[node] === block && this.#firstChild[node] === none) {
      const wasEvictable = this.isEvictable(node);
      this.#host.dropped(node, wasEvictable);
      this.#forgetBlock(block, node);
      this.#shorten(node, before, 1);
      if (wasEvictable) this.#host.evictable(node);
      return;
    }
    // The lower half of the split keeps the node's number and begins with the block.
    if (before !== none && this.#nodeOf[before] === node) this.#splitAfter(before);
    this.#dropDescendants(node);
    this.#dropNode(node);
  }

  *blocks(): Iterable<BlockId> {
    yield* this.#blockOf.blocks();
  }

  isEvictable(node: EntryId): boolean {
    return this.#length[node] > 0 && this.#referencedBlocks[node] === 0 && this.#firstChild[node] === none;
  }

  entryOf(block: BlockId): EntryId {
    return this.#nodeOf[block];
  }

  grow(blockCount: number): void {
    this.#keyOf = grown(this.#keyOf, blockCount);
    this.#nodeOf = grown(this.#nodeOf, blockCount);
    this.#before = grown(this.#before, blockCount);
  }

  /**
   * Stores the insertion's blocks from `from` on as one node, up to the first whose content is stored already, and returns
   * the index of that block. A partial block ends its node, because all other blocks of a node are full.
   */
  #insertNode(insertion: Insertion, parentBlock: BlockId, from: number): number {
    const { keys, start, table, partialAt } = insertion;
    const to = partialAt >= from && partialAt < insertion.to ? partialAt + 1 : insertion.to;
    const shift = start | 0;
    const blockOf = this.#blockOf;
    if (blockOf.at(keys[shift + from]) >= 0) return from;
    const keyOf = this.#keyOf;
    const nodeOf = this.#nodeOf;
    const beforeOf = this.#before;
    if (parentBlock !== none) this.#splitAfter(parentBlock);
    const node = this.#newNode();
    let before = parentBlock;
    let i = from | 0;
    for (let number = none, page = noPage; i < to; i++) {
      const key = keys[shift + i];
      if (key >>> pageBits !== number) page = blockOf.writable((number = key >>> pageBits));
      if (page[key & pageMask] >= 0) break;
      const block = table[i];
      page[key & pageMask] = block;
      keyOf[block] = key;
      nodeOf[block] = node;
      beforeOf[block] = before;
      before = block;
    }
    this.blockCount += i - from;
    this.#last[node] = before;
    this.#length[node] = this.#referencedBlocks[node] = i - from;
    this.#start[node] = from * this.#blockTokens;
    this.#end[node] = blockEnd(insertion, i - 1, this.#blockTokens);
    this.#firstChild[node] = none;
    this.#link(node, parentBlock === none ? none : nodeOf[parentBlock]);
    this.#host.created(node, this.#end[node], this.#end[node] - this.#start[node], keyOf[before]);
    return i;
  }

  /** Inserts blocks `[first, to)`; the content of block `first` is stored already. */
  #insertRest(insertion: Insertion, first: number): void {
    const { keys, start, table, from, to, partialAt, finishes, replacements } = insertion;
    for (let i = from; i < to; i++) replacements[i - from] = table[i];
    let parentBlock = first === 0 ? none : table[first - 1];
    // With `duplicates=free`, the stored last block if it is the end of its node.
    const end = this.#freesLast && finishes ? this.#blockOf.at(keys[start + to - 1]) : none;
    for (let i = first; i < to; ) {
      const stored = this.#blockOf.at(keys[start + i]);
      if (stored < 0) {
        i = this.#insertNode(insertion, parentBlock, i);
        parentBlock = table[i - 1];
        continue;
      }
      const isOther = stored !== table[i];
      const isFreed = end >= 0 && this.#last[this.#nodeOf[stored]] === end;
      if (isOther && (isFreed || i === partialAt || this.#before[stored] !== parentBlock)) {
        // This block and those after it stay private: the stored block is on another path, or this one is still written to, or
        // the request finishes and does not renew the node.
        replacements.fill(none, i - from, to - from);
        break;
      }
      replacements[i - from] = parentBlock = stored;
      i++;
    }
    // The request references stored blocks instead of its own up to here.
    if (parentBlock !== none && !this.#whole) this.#splitAfter(parentBlock);
  }

  #newNode(): EntryId {
    this.entryCount++;
    if (this.#freeCount > 0) return this.#free[--this.#freeCount];
    if (this.#unused === this.#length.length) this.#growNodes(2 * this.#unused);
    return this.#unused++;
  }

  #growNodes(count: number): void {
    this.#last = grown(this.#last, count);
    this.#length = grown(this.#length, count);
    this.#referencedBlocks = grown(this.#referencedBlocks, count);
    this.#start = grown(this.#start, count);
    this.#end = grown(this.#end, count);
    this.#parent = grown(this.#parent, count);
    this.#firstChild = grown(this.#firstChild, count);
    this.#next = grown(this.#next, count);
    this.#previous = grown(this.#previous, count);
    this.#free = grown(this.#free, count);
  }

  /** Splits the block's node so that the block is the last one of its node. */
  #splitAfter(block: BlockId): void {
    const lower = this.#nodeOf[block];
    if (this.#last[lower] === block) return;
    const upper = this.#newNode();
    let length = 0;
    for (let b = block; b !== none && this.#nodeOf[b] === lower; b = this.#before[b]) {
      this.#nodeOf[b] = upper;
      length++;
    }
    this.#last[upper] = block;
    this.#length[upper] = length;
    this.#length[lower] -= length;
    // Of a node that is referenced in part, it is the beginning.
    const referenced = this.#referencedBlocks[lower];
    this.#referencedBlocks[upper] = Math.min(referenced, length);
    this.#referencedBlocks[lower] = referenced - this.#referencedBlocks[upper];
    this.#start[upper] = this.#start[lower];
    this.#start[lower] = this.#end[upper] = this.#start[upper] + length * this.#blockTokens;
    this.#insertParent(upper, lower);
    this.#host.created(upper, this.#end[upper], this.#end[upper] - this.#start[upper], this.#keyOf[block]);
    this.#host.split(lower, upper, this.#end[lower], this.#end[lower] - this.#start[lower]);
    if (referenced > 0 && this.#referencedBlocks[lower] === 0) {
      this.#host.touch(lower);
      this.#becomesIdle(lower);
    } else if (this.#renews && referenced === 0) this.#renew(lower);
  }

  /** Makes an unreferenced node the most recently used one. */
  #renew(node: EntryId): void {
    const isLeaf = this.#firstChild[node] === none;
    if (isLeaf) this.#host.blocked(node);
    this.#host.touch(node);
    if (isLeaf) this.#host.evictable(node);
  }

  /** Updates a node whose last `count` blocks were removed; it ends with block `last` now. */
  #shorten(node: EntryId, last: BlockId, count: number): void {
    this.#last[node] = last;
    this.#length[node] -= count;
    const tokens = this.#length[node] * this.#blockTokens;
    this.#end[node] = this.#start[node] + tokens;
    this.#host.resized(node, this.#end[node], tokens, this.#keyOf[last]);
  }

  /** Puts a new node in the place of `lower` and makes `lower` its only child. */
  #insertParent(upper: EntryId, lower: EntryId): void {
    const parent = this.#parent[lower];
    const next = this.#next[lower];
    const previous = this.#previous[lower];
    this.#parent[upper] = parent;
    this.#next[upper] = next;
    this.#previous[upper] = previous;
    if (next !== none) this.#previous[next] = upper;
    if (previous !== none) this.#next[previous] = upper;
    else if (parent !== none) this.#firstChild[parent] = upper;
    this.#firstChild[upper] = lower;
    this.#parent[lower] = upper;
    this.#next[lower] = this.#previous[lower] = none;
  }

  #link(node: EntryId, parent: EntryId): void {
    this.#parent[node] = parent;
    this.#next[node] = this.#previous[node] = none;
    if (parent === none) return;
    const first = this.#firstChild[parent];
    // The parent is the stored node that the request is about to reference instead of its duplicate; it stops being a leaf.
    if (this.isEvictable(parent)) this.#host.blocked(parent);
    this.#firstChild[parent] = node;
    this.#next[node] = first;
    if (first !== none) this.#previous[first] = node;
  }

  #unlink(node: EntryId): void {
    const parent = this.#parent[node];
    if (parent === none) return;
    const next = this.#next[node];
    const previous = this.#previous[node];
    if (previous === none) this.#firstChild[parent] = next;
    else this.#next[previous] = next;
    if (next !== none) this.#previous[next] = previous;
  }

  /** Removes a node without blocks; its parent may become an evictable leaf. */
  #removeNode(node: EntryId): void {
    const parent = this.#parent[node];
    this.#unlink(node);
    this.#length[node] = 0;
    this.entryCount--;
    this.#free[this.#freeCount++] = node;
    if (parent !== none && this.isEvictable(parent)) this.#host.evictable(parent);
  }

  /** Drops all descendants of a node, deepest first; iterative, as paths are long. */
  #dropDescendants(top: EntryId): void {
    let node = top;
    for (;;) {
      while (this.#firstChild[node] !== none) node = this.#firstChild[node];
      if (node === top) return;
      const parent = this.#parent[node];
      this.#dropNode(node);
      node = parent;
    }
  }

  #dropNode(node: EntryId): void {
    this.#host.dropped(node, this.isEvictable(node));
    let block = this.#last[node];
    for (let count = this.#length[node]; count > 0; count--) {
      const before = this.#before[block];
      this.#forgetBlock(block, node);
      block = before;
    }
    this.#removeNode(node);
  }

  #forgetBlock(block: BlockId, node: EntryId): void {
    this.#blockOf.set(this.#keyOf[block], evicted);
    this.blockCount--;
    if (this.#referencedBlocks[node] === 0) this.evictableBlocks--;
    else if (!this.#host.isIdle(block)) this.#referencedBlocks[node]--;
    this.#host.blockDropped(block);
  }
}

export const radixTree: IndexPlugin = {
  name: "radix-tree",
  about: "nodes are runs of blocks, split where prefixes diverge; leaves are evicted first, from their end",
  source: "SGLang RadixAttention; TGI v3 radix allocator; LightLLM",
  defaults: { victims: "leaf", "victim-unit": "tail", duplicates: "swap" },
  supports: {
    "match-limit": "any",
    "full-hit": "any",
    "drop-blocks": "any",
    publish: "any",
    "cache-generated": "any",
    duplicates: ["swap", "free"],
    victims: ["leaf"],
    "victim-unit": "any",
    "node-match": "any",
    "free-order": "any",
    reserve: "any",
    collision: "any",
  },
  create: (context, blockCount) => new RadixTree(context, blockCount),
};
