import type { BlockContents } from "../trace/content.ts";
import type { BlockId, EntryColumns, EntryId, Insertion } from "./entry-columns.ts";
import type { Plugin } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";
import type { RuleName, RuleSupport, Rules, RuleValue } from "./rules.ts";

/** Callbacks with which a prefix index reports changes of its entries to the cache. */
export interface IndexHost {
  /** The columns of the index's entries. */
  readonly columns: EntryColumns;
  /** Whether `hit` must be called. */
  readonly countsHits: boolean;
  /** Whether an operator has pinned the block. */
  isPinned(block: BlockId): boolean;
  /** Whether the block is cached and unreferenced. */
  isIdle(block: BlockId): boolean;
  /** An entry was created; `depth` and `tokens` are its end and its length in tokens, `key` the content id of its end. */
  created(entry: EntryId, depth: number, tokens: number, key: number): void;
  /** Blocks `[from, to)` of the insertion became entries of their own, and their `columns.key` has been written. */
  createdBlocks(insertion: Insertion, from: number, to: number): void;
  /** A request matched the entry. */
  hit(entry: EntryId): void;
  /** The entry became unreferenced in this operation. */
  touch(entry: EntryId): void;
  /** The entry became evictable. */
  evictable(entry: EntryId): void;
  /** `touch` for `entries[0 .. count)`. */
  touchMany(entries: Int32Array, count: number): void;
  /** `touch` and `evictable` for `entries[0 .. count)`. */
  released(entries: Int32Array, count: number): void;
  /** The entry is referenced, or another entry extends it: it is not evictable. */
  blocked(entry: EntryId): void;
  /** The entry was removed without having been an eviction victim. */
  dropped(entry: EntryId, wasEvictable: boolean): void;
  /** A run was split: the new entry `upper` has been created; `depth` and `tokens` are the end and length of `lower`. */
  split(lower: EntryId, upper: EntryId, depth: number, tokens: number): void;
  /** The entry's end, length and key have changed; it must not be evictable when they do. */
  resized(entry: EntryId, depth: number, tokens: number, key: number): void;
  /** `blocks[0 .. count)` are all blocks that `evict` removes, deepest first: they are free. */
  evicted(blocks: Int32Array, count: number): void;
  /** The index has dropped the block, which was not evicted. If it is unreferenced, it is free. */
  blockDropped(block: BlockId): void;
}

/** The argument of an index's `create`, which is called once per cache. */
export interface IndexContext {
  /** The cache, which the index notifies. */
  readonly host: IndexHost;
  /** The reuse rules in effect. */
  readonly rules: Rules;
  readonly blockTokens: number;
}

/** Result of `PrefixIndex.match`, in blocks; reused between calls. */
export interface Match {
  /** Length of the stored prefix. */
  blocks: number;
  /** Number of looked-up blocks after the stored prefix that are not stored. */
  absent: number;
  /** Number of `absent` blocks that were stored and evicted; 0 unless the index `remembersEvicted`. */
  evicted: number;
}

/** Result of `PrefixIndex.matchPartial`; reused between calls. */
export interface PartialMatch {
  block: BlockId;
  /** Leading tokens of the block that match; 0 = none. */
  tokens: number;
  /** In: most tokens that the request can use. */
  maxTokens: number;
  /** Whether the block is computed and the rules allow its use. */
  readonly isUsable: (block: BlockId) => boolean;
}

/**
 * Stores and matches prefixes, as content ids, one per block. It has no reference counts: the cache calls `referenced`
 * when a block's reference count becomes 1 and `released` when it becomes 0, and the index derives which of its entries are
 * evictable. Lists of blocks are the first `count` of a reused array; the blocks of one call belong to one request, in the
 * order of its prompt or in reverse order.
 */
export interface PrefixIndex {
  /** Blocks that evicting all evictable entries, one after the other, would free. */
  readonly evictableBlocks: number;
  /** Blocks that it stores. */
  readonly blockCount: number;
  /** Entries that it stores. */
  readonly entryCount: number;
  /** Distinguishes evicted content from cold misses. */
  readonly remembersEvicted?: true;
  /**
   * The longest stored prefix of `keys[start .. start + count)`: writes its blocks to `table` and their number to
   * `found.blocks`. For blocks after that prefix it writes the stored block (only a hash table can find one past a hole), −1 if
   * the content is not stored, −2 if it was evicted and the index `remembersEvicted`. Changes nothing else.
   */
  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void;
  /**
   * Of the usable blocks that extend `above` (−1: that begin a prompt), the one with the most leading tokens in common
   * with content `key`. An index that has this, and `isLeaf`, supports the rule `partial`.
   */
  matchPartial?(above: BlockId, key: number, contents: BlockContents, found: PartialMatch): void;
  /** All stored blocks with the content of this one; absent where content is stored once. */
  duplicatesOf?(block: BlockId): Iterable<BlockId>;
  /** Whether no block extends the block. */
  isLeaf?(block: BlockId): boolean;
  /** A request will reference the first `count` blocks of a match: splits the run that extends past them. */
  cut?(blocks: Int32Array, count: number): void;
  /**
   * Evictable blocks of all entries that the first `count` blocks of a match belong to, which are not evictable while a request
   * references these blocks. Absent if a reference protects single blocks.
   */
  readonly evictableAlong?: ((blocks: Int32Array, count: number) => number) | undefined;
  /** The hit blocks of a request, in order; they are referenced. */
  matched(blocks: Int32Array, count: number): void;
  /** The reference counts of these blocks became 1. */
  referenced(blocks: Int32Array, count: number): void;
  /** The reference counts of these blocks became 0; in the order of the rule `free-order`. */
  released(blocks: Int32Array, count: number): void;
  /**
   * Stores blocks `table[from .. to)`, whose content is `keys[start + from .. start + to)`; the request references the
   * blocks before them, stored or not. Blocks that are stored already are skipped. `replacements[i − from]` is the block that
   * the request uses from now on: another block with equal content if the rule `duplicates` prefers it; −1 if its own block
   * is not stored; otherwise its own block. Returns true, and need not write `replacements`, if all own blocks are stored.
   */
  insert(insertion: Insertion): boolean;
  /** Evicts the entry, or blocks at its end, at least one; calls `host.evicted` with the blocks. */
  evict(entry: EntryId, wantedBlocks: number): void;
  /**
   * Evicts these entries, each of which is a block, without notifying the host; present only where an eviction makes no
   * other entry evictable.
   */
  evictMany?(entries: Int32Array, from: number, to: number): void;
  /** Present where only leaves are evictable, each of them a block. */
  readonly leaves?: LeafIndex | undefined;
  /** Drops a block, which may be referenced (a step that was rolled back, a prefix that an operator deletes). */
  drop(block: BlockId): void;
  /** Every stored block, for audits. */
  blocks(): Iterable<BlockId>;
  /** Whether the entry may be evicted now; also for numbers that no entry has. */
  isEvictable(entry: EntryId): boolean;
  /** The entry that a stored block belongs to. */
  entryOf(block: BlockId): EntryId;
  /**
   * Number of leading blocks of a request that the index stores, all at once, and matches; 0 = none. If absent, the index
   * stores blocks one by one, as they are published.
   */
  stores?(request: RequestView): number;
  /**
   * A block of the entry that was inserted or used longest ago, referenced or not, of those that are not pinned; −1 =
   * none. For the rule `max-entries`, which may drop referenced entries.
   */
  oldest?(isPinned: (block: BlockId) => boolean): BlockId;
  /** The pool has grown to `blockCount` blocks (an unlimited cache). */
  grow(blockCount: number): void;
  /** Content ids below `distinct` may occur from now on. */
  expectKeys(distinct: number): void;
}

/** An index whose entries are blocks, of which only those without children may be evicted. */
export interface LeafIndex {
  /** Removes the entry without notifying the host; returns its parent if that is evictable now, else −1. */
  evictLeaf(entry: EntryId): EntryId;
}

export interface IndexPlugin extends Plugin {
  readonly supports: RuleSupport;
  readonly defaults?: Partial<Record<RuleName, RuleValue>>;
  /** It stores no blocks: there are no hits. */
  readonly storesNothing?: true;
  /**
   * Unit of storage, if not single published blocks: the prompt with its partial last block, or the whole blocks of the
   * marked prefix. Each is matched only as a whole (`marked-paths`: or by a prompt that continues it).
   */
  readonly unit?: "prompt" | "marked" | "marked-paths";
  /** An index for one cache with `blockCount` blocks. */
  create(context: IndexContext, blockCount: number): PrefixIndex;
}
