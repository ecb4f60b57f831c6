import type { BlockColumns, BlockContents } from "./content.ts";
import type { BlockId, EntryColumns, EntryId, Insertion } from "./entries.ts";
import type { Random } from "./random.ts";
import type { RuleName, RuleSupport, Rules, RuleValue } from "./rules.ts";
import type { Nanos } from "./trace.ts";

export type { BlockId, EntryId, Insertion } from "./entries.ts";

/**
 * What a policy may know of a request; its true output length is not among it. Valid during the call: the object may be
 * another request's afterwards.
 */
export interface RequestView {
  /** Place in the order of arrival, from 0. */
  readonly id: number;
  readonly arrivalNs: Nanos;
  readonly inputTokens: number;
  readonly maxOutputTokens: number;
  readonly namespace: number;
  readonly session: number;
  readonly category: number;
  readonly priority: number;
  /** How long after its last use what it stores keeps this priority; absent or 0 = for ever. */
  readonly retentionNs?: Nanos;
  readonly markedTokens: number;
  /** Content ids of the prompt's blocks: `keys[keyStart .. keyStart + promptBlocks)`. */
  readonly keys: Uint32Array;
  readonly keyStart: number;
  readonly promptBlocks: number;
}

/** All requests to come, in their order; only for policies that say so in their description. */
export interface FutureView {
  readonly blocks: BlockColumns;
  readonly requestCount: number;
  /** Of each request's blocks, how many can be hits under the rules; 0 if it will be refused. */
  readonly usableBlocks: Uint32Array;
}

/**
 * Orders the entries that may be evicted. Only `add`, `remove` and `victim` are required. Everything a policy needs to
 * know about an entry is in the columns of its context.
 */
export interface EvictionPolicy {
  /** The entry became evictable. */
  add(entry: EntryId): void;
  /** The entry is evictable no longer: somebody holds it, it was this policy's victim, or the index forgot it. */
  remove(entry: EntryId, why: "held" | "evicted" | "dropped"): void;
  /** The entry to go next. Only looks: asking twice gives the same. */
  victim(now: Nanos): EntryId | undefined;
  /** Inserted into the index by this request, which holds it. Whatever its number stood for before is over. */
  published?(entry: EntryId, request: RequestView): void;
  /** Matched by this request, also while another one holds it. */
  hit?(entry: EntryId, request: RequestView): void;
  /**
   * A run was cut in two, of which `upper` is new and held; both keep the history. `lower` is shorter now (`tokens`,
   * `recomputeCost`) and may be evictable.
   */
  split?(lower: EntryId, upper: EntryId): void;
  /** The entry's tail was evicted. */
  resized?(entry: EntryId): void;
  /** A request is about to be admitted (or refused for good). */
  begin?(request: RequestView, now: Nanos): void;
  /** Before the first request: reads what is to come. A policy that has this is offline. */
  prepare?(future: FutureView): void;
  /** `add` for `entries[0 .. count)`, which one request let go just now. `byScore` has it; no need to write one. */
  addMany?(entries: Int32Array, count: number): void;
  /**
   * The next victims in order, removed as if each had been named and evicted, written to `into[from .. to)`; returns
   * where it stopped. With `leaves`, each one must be taken out with `evictLeaf`, and what that makes evictable is added
   * before the next one is named.
   */
  takeMany?(into: Int32Array, from: number, to: number, leaves?: LeafIndex): number;
}

export interface EvictionContext {
  readonly columns: EntryColumns;
  readonly random: Random;
  /** Blocks of the cache; undefined when unlimited. */
  readonly capacityBlocks: number | undefined;
  readonly rules: Rules;
}

/** What all plug-ins say of themselves; `kvlab policies` prints it. */
export interface Plugin {
  readonly name: string;
  /** One line: what it does. */
  readonly about: string;
  /** The paper or project that it comes from. */
  readonly source: string;
}

export interface EvictionPlugin extends Plugin {
  create(context: EvictionContext): EvictionPolicy;
  /** The cache has no limit; the policy is never asked for a victim. A bound, not a policy to choose. */
  readonly unlimited?: true;
  /** Decides as `lru` does unless requests say priorities, or overlap: `compare` shows it to whoever asks for it. */
  readonly asLru?: true;
  /** It reads the future. A bound, not a policy to choose. */
  readonly offline?: true;
}

/** An index whose entries are blocks, of which only those may be evicted that nothing extends. */
export interface LeafIndex {
  /** Takes the entry out; returns the one that it extended, if that may be evicted now, else −1. Tells nobody. */
  evictLeaf(entry: EntryId): EntryId;
}

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
  most: number;
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
  readonly remembers?: true;
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
  alike?(block: BlockId): Iterable<BlockId>;
  /** Whether nothing extends the block. */
  isLeaf?(block: BlockId): boolean;
  /** A request is about to hold the first `count` blocks of a match and no more: a run that goes on is cut there. */
  cut?(blocks: Int32Array, count: number): void;
  /** A request uses these blocks of a match, which are held now: its hits, in order. */
  matched(blocks: Int32Array, count: number): void;
  /** These blocks, which nobody held, are held now. */
  held(blocks: Int32Array, count: number): void;
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
  /** It evicts leaf by leaf, as `takeMany` does with it. */
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

/** Hands out block ids and takes them back, in lists, for some allocators care which blocks go together. */
export interface Allocator {
  readonly freeBlocks: number;
  /** Free blocks for `table[from .. to)`; there are enough, the caller has looked. */
  allocate(table: Int32Array, from: number, to: number): void;
  /** `blocks[from .. to)` are free now; one request or one entry had them, and its deepest comes first. */
  release(blocks: Int32Array, from: number, to: number): void;
  grow(blockCount: number): void;
  /** The free blocks, the next one to go out first. */
  free(): Iterable<BlockId>;
  /** Everything is free now, and goes out in this order. */
  reset(order: Int32Array): void;
  /** The block that goes out next, where they queue. */
  first?(): BlockId;
  /** How scattered allocations are, where it matters. */
  fragmentation?(): Fragmentation;
  /** The order of free blocks means nothing: a victim may go to its next owner without coming back here. */
  readonly handsOver?: true;
}

/** How an allocator's blocks lie. A run is a row of neighbours, of consecutive numbers. */
export interface Fragmentation {
  /** Lists of blocks handed out, their blocks, and the runs that these came in: as many as lists if none was scattered. */
  readonly allocations: number;
  readonly blocks: number;
  readonly runs: number;
  /** Of the blocks that are free now, the longest run. */
  readonly largestFreeRun: number;
}

export interface AllocatorPlugin extends Plugin {
  /** Free blocks go out in the order in which they came: what the rule `free-queue=single` needs, and `first`. */
  readonly queues?: true;
  create(blockCount: number): Allocator;
}

/** A request in a replica as a scheduler sees it. */
export interface SequenceView {
  readonly request: RequestView;
  /** Tokens whose keys and values are there, cached or computed. */
  readonly computedTokens: number;
  /** Of these, found in the cache at admission. */
  readonly cachedTokens: number;
  /** Tokens that must be there before the next one can be generated: the prompt and what was generated so far. */
  readonly knownTokens: number;
  readonly generatedTokens: number;
  readonly preemptions: number;
  /** It is in the step that is being planned ... */
  readonly inStep: boolean;
  /** ... which computes so many of its tokens, those included that come back from the host. */
  readonly stepTokens: number;
  /** Tokens whose keys and values the host has, while it waits. */
  readonly swappedTokens: number;
  /** Blocks it holds now. */
  readonly blockCount: number;
  readonly next: SequenceView | undefined;
}

/** What a scheduler has to decide with: the queues, a look into the cache, and the five things that it can do. */
export interface SchedulerContext {
  /** In order of arrival, those that were preempted in front. */
  readonly firstWaiting: SequenceView | undefined;
  readonly waitingCount: number;
  readonly running: readonly SequenceView[];
  readonly blockTokens: number;
  readonly totalBlocks: number | undefined;
  /** Free blocks and those that could be evicted. */
  readonly availableBlocks: number;
  /** Blocks in use by requests. */
  readonly heldBlocks: number;
  /** What admission would find cached for it; changes nothing. */
  cachedTokens(sequence: SequenceView): number;
  /**
   * Lets a waiting request run: holds its cached prefix, allocates for at most `tokens` more (all by default) and puts
   * them into this step. False, and nothing has changed, if the blocks are not there, or if less than `spareBlocks` would
   * be left.
   */
  admit(sequence: SequenceView, tokens?: number, spareBlocks?: number): boolean;
  /** Puts at most `tokens` more of a running request into this step. False, and nothing has changed, if they do not fit. */
  schedule(sequence: SequenceView, tokens?: number): boolean;
  /** Blocks that the host still has room for: what `preempt(…, "swap")` needs. */
  readonly freeHostBlocks: number;
  /**
   * Sends a running request back to the queue, to its head or its end. Its blocks are given back; with `swap` their
   * contents go to the host, and come back before its next step.
   */
  preempt(sequence: SequenceView, how: "recompute" | "swap", place?: "head" | "tail"): void;
  /** Takes what is cached of the request's marked prefix out of the cache, as far as nobody uses it. */
  deletePrefix(request: RequestView): void;
  /** Gives a waiting request up; it counts as refused. */
  refuse(sequence: SequenceView, why: string): void;
}

/** Decides which requests, and how many of their tokens, enter the next step. */
export interface Scheduler {
  plan(context: SchedulerContext, now: Nanos): void;
  /**
   * Asked after a step in which every running request wrote one token: whether all coming plans will be that very step
   * again, in the same order and whatever the time, as long as no request arrives, ends, or needs a block. Absent: no.
   */
  isSteady?(context: SchedulerContext): boolean;
  /** A request has arrived. */
  arrived?(sequence: SequenceView, now: Nanos): void;
  finished?(sequence: SequenceView, now: Nanos): void;
}

/** A number that a scheduler or router takes, by the name that the system itself gives it. */
export interface PluginOption {
  readonly about: string;
  readonly default: number;
  /** The least and the most that it may be; a whole number unless `fraction`. */
  readonly least?: number;
  readonly most?: number;
  readonly fraction?: true;
}

export interface SchedulerPlugin extends Plugin {
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** `options` has a value for every option that the plug-in declares. */
  create(given: {
    readonly random: Random;
    readonly rules: Rules;
    readonly options: Readonly<Record<string, number>>;
  }): Scheduler;
}

/** What a router knows of a replica. */
export interface ReplicaView {
  readonly waitingCount: number;
  readonly runningCount: number;
  readonly waitingTokens: number;
  readonly heldBlocks: number;
  readonly totalBlocks: number | undefined;
  /** Tokens of the request that this replica has cached. */
  cachedTokens(request: RequestView): number;
}

/** Chooses the replica of a request; it changes nothing in them. */
export interface Router {
  /** The place in `replicas` of the one that gets this request; as many as it was created for, always in this order. */
  route(request: RequestView, replicas: readonly ReplicaView[], now: Nanos): number;
  /** A request that went to this replica has ended there. */
  finished?(request: RequestView, replica: number, now: Nanos): void;
}

export interface RouterPlugin extends Plugin {
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** `options` has a value for every option that the plug-in declares. */
  create(given: {
    readonly random: Random;
    readonly replicaCount: number;
    readonly blockTokens: number;
    readonly options: Readonly<Record<string, number>>;
  }): Router;
}
