import type { BlockContents } from "../trace/content.ts";
import type { BlockId, EntryColumns, EntryId, Insertion } from "./entry-columns.ts";
import type { Plugin } from "./plugin.ts";
import type { RequestView } from "./request-view.ts";
import type { RuleName, RuleSupport, Rules, RuleValue } from "./rules.ts";

/** What an index tells the cache. All calls are about the index's own entries. */
export interface IndexHost {
  /** What the index has reported of its entries. */
  readonly columns: EntryColumns;
  /** Whether anybody wants to hear of hits. */
  readonly countsHits: boolean;
  /** Whether an operator wants the stored block to stay. */
  isPinned(block: BlockId): boolean;
  /** Whether the block is stored and nobody holds it. */
  isIdle(block: BlockId): boolean;
  /** An entry was made; `depth` and `tokens` are its end and its length in tokens, `key` the content id of its end. */
  created(entry: EntryId, depth: number, tokens: number, key: number): void;
  /** Blocks `[from, to)` of the insertion became entries of their own, and their `columns.key` has been written. */
  createdBlocks(insertion: Insertion, from: number, to: number): void;
  /** A request matched the entry. */
  hit(entry: EntryId): void;
  /** Nobody uses the entry now; it was in use until this operation. */
  touch(entry: EntryId): void;
  evictable(entry: EntryId): void;
  /** `touch` for `entries[0 .. count)`. */
  touchMany(entries: Int32Array, count: number): void;
  /** `touch` and `evictable` for `entries[0 .. count)`. */
  released(entries: Int32Array, count: number): void;
  /** Somebody uses the entry, or another one extends it: it may not be evicted. */
  blocked(entry: EntryId): void;
  /** The entry is gone without having been a victim. */
  dropped(entry: EntryId, wasEvictable: boolean): void;
  /** A run was cut; the new entry `upper` has been created, and `lower` is so long now. */
  split(lower: EntryId, upper: EntryId, depth: number, tokens: number): void;
  /** The entry's end, length and key are these now; it must not be evictable when they change. */
  resized(entry: EntryId, depth: number, tokens: number, key: number): void;
  /** The first `count` of these are all the blocks that `evict` takes out, deepest first: they are free. */
  evicted(blocks: Int32Array, count: number): void;
  /** The index no longer knows the block, without its having been a victim's. If nobody holds it, it is free. */
  forgotten(block: BlockId): void;
}

export interface IndexContext {
  readonly host: IndexHost;
  readonly rules: Rules;
  readonly blockTokens: number;
}

/** What `PrefixIndex.match` found, in blocks; reused between calls. */
export interface Match {
  /** Length of the stored prefix. */
  blocks: number;
  /** Of the rest, how many are not stored ... */
  absent: number;
  /** ... and how many of these were stored before (0 from an index that does not remember). */
  evicted: number;
}

/** The block that `PrefixIndex.matchPart` found; reused between calls. */
export interface PartMatch {
  block: BlockId;
  /** Tokens from the block's beginning that are those looked for; 0 if there are none. */
  tokens: number;
  /** More tokens than this are of no use. */
  maxTokens: number;
  /** Whether there is anything in the block yet. */
  readonly isUsable: (block: BlockId) => boolean;
}

/**
 * Finds and stores prefixes. It sees content ids, one a block, and never counts holders itself: the cache tells it when
 * blocks are held by their first request and released by their last, and it derives from that which of its entries may
 * be evicted. Lists of blocks are the first `count` of a reused array; blocks held or released together are one
 * request's, in the order of its prompt or against it.
 */
export interface PrefixIndex {
  /** Blocks that evicting everything evictable, one after the other, would free. */
  readonly evictableBlocks: number;
  /** Blocks that it stores. */
  readonly blockCount: number;
  /** Entries that it stores. */
  readonly entryCount: number;
  /** It tells content that it stored before and has evicted from content that it never had. */
  readonly remembersEvicted?: true;
  /**
   * The longest stored prefix of `keys[start .. start + count)`: writes its blocks to `table` and their number to
   * `found.blocks`. What is stored of the rest, which only a hash table can know, is written to its place; where there
   * is nothing, −1, or −2 if it `remembers` that this was stored before. Changes nothing else.
   */
  match(keys: Uint32Array, start: number, count: number, table: Int32Array, found: Match): void;
  /**
   * Of the usable blocks that extend `above` (−1: that begin a prompt), one that has most tokens from its beginning in
   * common with content `key`. An index that has this, and `isLeaf`, supports the rule `partial`.
   */
  matchPart?(above: BlockId, key: number, contents: BlockContents, found: PartMatch): void;
  /** All stored blocks with the content of this one; absent where content is stored once. */
  duplicatesOf?(block: BlockId): Iterable<BlockId>;
  /** Whether nothing extends the block. */
  isLeaf?(block: BlockId): boolean;
  /** A request is about to hold the first `count` blocks of a match and no more: a run that goes on is cut there. */
  cut?(blocks: Int32Array, count: number): void;
  /** A request uses these blocks of a match, which are held now: its hits, in order. */
  matched(blocks: Int32Array, count: number): void;
  /** These blocks, which nobody held, are held now. */
  referenced(blocks: Int32Array, count: number): void;
  /** These blocks are held by nobody now; in the order of the rule `free-order`. */
  released(blocks: Int32Array, count: number): void;
  /**
   * Makes blocks `table[from .. to)` findable, which hold `keys[start + from .. start + to)`; the request holds what is
   * before them, stored or not. Blocks that are stored already are passed over. Where equal content is stored in another
   * block and the rule `duplicates` prefers that one, it is written to `instead[i − from]`; where the own block is not
   * stored, −1; else the own block. Returns true, and need not write `instead`, if all are stored as they are.
   */
  insert(insertion: Insertion): boolean;
  /** Takes the entry, or its tail, out; its blocks go to `host.evicted`. At least one block, at most the entry. */
  evict(entry: EntryId, wantedBlocks: number): void;
  /**
   * Takes these entries out, whose blocks are themselves, and tells nobody; only where an eviction makes no other entry
   * evictable.
   */
  evictMany?(entries: Int32Array, from: number, to: number): void;
  /** Present where only leaves are evictable, each of them a block. */
  readonly leaves?: LeafIndex | undefined;
  /** Takes a block out that somebody holds (a step that did not happen, a prefix that a user deletes). */
  forget(block: BlockId): void;
  /** Every stored block, for audits. */
  blocks(): Iterable<BlockId>;
  /** Whether the entry may be evicted now; also for numbers that no entry has. */
  isEvictable(entry: EntryId): boolean;
  /** The entry that a stored block belongs to. */
  entryOf(block: BlockId): EntryId;
  /**
   * It stores the first so many blocks of a request and no others, all at once, and finds no more than these; 0 = nothing
   * of it. Absent: any number of blocks, as they come.
   */
  stores?(request: RequestView): number;
  /**
   * A block of the entry that was inserted or used longest ago, in use or not, of those that are not pinned; −1 if there is
   * none. Where `max-entries` may drop any.
   */
  oldest?(isPinned: (block: BlockId) => boolean): BlockId;
  /** More blocks than before (an unlimited cache). */
  grow(blockCount: number): void;
  /** Content ids below `distinct` may come from now on. */
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
  /** Stores nothing: there are no hits. */
  readonly none?: true;
  /**
   * What it stores of a request, if not any blocks as they come: its prompt, the partial last block included, or the whole
   * blocks of what its user has marked, each found only by itself (`paths`: or by what goes on behind it).
   */
  readonly unit?: "prompt" | "marked" | "marked-paths";
  create(context: IndexContext, blockCount: number): PrefixIndex;
}
