import { hold, letGo, own, publishOwn } from "./block-loops.ts";
import type { CacheEntries } from "./cache-entries.ts";
import type { Counters } from "./counters.ts";
import { blockEnd } from "./entries.ts";
import { assert, InvariantError } from "./errors.ts";
import { EventKind, type EventLog } from "./events.ts";
import { Lookup } from "./lookup.ts";
import type { Allocator, BlockId, EvictionPolicy, Insertion, PrefixIndex } from "./plugins.ts";
import { type BlockPool, BlockState, blockWord } from "./pool.ts";
import { hole, type Sequence } from "./request.ts";
import type { Rules } from "./rules.ts";
import type { BlockCopy } from "./step.ts";
import type { Nanos } from "./trace.ts";

// Module constants, because a property of an imported object costs a load in the innermost loops.
const { free, reserved, computing, published, idle } = BlockState;
const freeWord = blockWord(free, 0);
const reservedOnce = blockWord(reserved, 1);
const computingOnce = blockWord(computing, 1);
const publishedOnce = blockWord(published, 1);
const idleWord = blockWord(idle, 0);

/** The parts that a cache is put together from; `core/compose.ts` does it. */
export interface CacheParts {
  readonly blockTokens: number;
  /** undefined = unlimited: the pool grows. */
  readonly blocks: number | undefined;
  readonly rules: Rules;
  readonly index: PrefixIndex;
  readonly policy: EvictionPolicy;
  readonly allocator: Allocator;
  readonly entries: CacheEntries;
  readonly counters: Counters;
  readonly log: EventLog | undefined;
  /** Requests come from more than one namespace. */
  readonly namespaces: boolean;
}

/**
 * The KV cache of one model instance: prefix index + eviction policy + allocator + reuse rules. It alone counts holders
 * and hits. A request's blocks:
 *
 *   prompt   [0 ....... cached)  [cached ... full)   [full ... end)
 *   owner    shared, ref + 1     new, published      private, freed at release
 */
export class KvCache {
  readonly blockTokens: number;
  readonly rules: Rules;
  readonly counters: Counters;
  readonly entries: CacheEntries;
  readonly index: PrefixIndex;
  /** Blocks to copy before the step under way; whoever runs the step clears it. */
  readonly copies: BlockCopy[] = [];
  readonly #policy: EvictionPolicy;
  readonly #allocator: Allocator;
  readonly #pool: BlockPool;
  readonly #log: EventLog | undefined;
  readonly #unlimited: boolean;
  // Rules that the innermost loops ask for.
  readonly #publishAtAllocation: boolean;
  readonly #forward: boolean;
  readonly #recomputeLast: boolean;
  /** Blocks on their way to the index. */
  #list = new Int32Array(256);
  /** The half of an admission that only reads. */
  readonly lookup: Lookup;
  #distinct = 0;
  readonly #insertion: { -readonly [Field in keyof Insertion]: Insertion[Field] } = {
    keys: new Uint32Array(0),
    start: 0,
    table: new Int32Array(0),
    from: 0,
    to: 0,
    promptBlocks: 0,
    promptTokens: 0,
    partialAt: -1,
    instead: new Int32Array(64),
  };

  constructor(parts: CacheParts) {
    this.blockTokens = parts.blockTokens;
    this.rules = parts.rules;
    this.counters = parts.counters;
    this.entries = parts.entries;
    this.index = parts.index;
    this.#policy = parts.policy;
    this.#allocator = parts.allocator;
    this.#pool = parts.entries.pool;
    this.#log = parts.log;
    this.#unlimited = parts.blocks === undefined;
    this.#forward = parts.rules["free-order"] === "forward";
    this.#publishAtAllocation = parts.rules.publish === "allocation";
    this.#recomputeLast = parts.rules["full-hit"] === "recompute-last";
    this.lookup = new Lookup(parts, this.#pool);
  }

  get totalBlocks(): number | undefined {
    return this.#unlimited ? undefined : this.#pool.blockCount;
  }
  get pool(): BlockPool {
    return this.#pool;
  }
  get freeBlocks(): number {
    return this.#allocator.freeBlocks;
  }
  get availableBlocks(): number {
    return this.#unlimited ? Number.POSITIVE_INFINITY : this.#allocator.freeBlocks + this.index.evictableBlocks;
  }
  get heldBlocks(): number {
    return this.#pool.blockCount - this.#allocator.freeBlocks - this.index.evictableBlocks;
  }
  /** The allocator's free blocks, for audits. */
  freeList(): Iterable<BlockId> {
    return this.#allocator.free();
  }

  /** Content ids below `distinct` may come from now on. */
  expectKeys(distinct: number): void {
    if (distinct <= this.#distinct) return;
    this.#distinct = distinct;
    this.lookup.history?.expectKeys(distinct);
    this.index.expectKeys(distinct);
  }

  /** Tokens that an admission would find; changes nothing. */
  cachedTokens(sequence: Sequence): number {
    this.expectKeys(sequence.request.blocks.distinct);
    return this.lookup.cachedTokens(sequence);
  }

  /**
   * Holds the cached prefix and allocates for at most `tokens` more. Returns whether the blocks were there; if not,
   * nothing has changed.
   */
  admit(sequence: Sequence, tokens: number, now: Nanos): boolean {
    const found = this.lookup;
    found.look(sequence, tokens);
    const { neededBlocks: needed, tableEnd: target } = found;
    if (needed > this.availableBlocks - found.idleBlocks) return false;
    this.#begin(sequence, now);
    this.#policy.begin?.(sequence.request, now);
    found.count(sequence, this.counters);
    if (this.#log) found.log(sequence, this.#log, now);
    this.#holdFound(sequence, found.hitBlocks);
    if (this.#unlimited && this.#allocator.freeBlocks < needed) this.#grow(needed);
    if (found.copyLast) this.#copyLast(sequence, found.hitBlocks - 1);
    const stepEnd = Math.min(sequence.knownTokens, found.hitTokens + tokens);
    sequence.computingEnd = sequence.blocksUpTo(stepEnd);
    sequence.blockCount = found.hitBlocks;
    if (found.steals) this.#steal(sequence, found.part);
    const whole = stepEnd === sequence.request.inputTokens && !found.steals;
    const source = found.partTokens > 0 && !found.steals ? found.part : hole;
    if (target > sequence.blockCount) this.#allocateUpTo(sequence, target, whole, source);
    sequence.cachedBlocks = sequence.publishedBlocks = found.hitBlocks;
    sequence.cachedTokens = sequence.computedTokens = found.hitTokens;
    if (this.#recomputeLast && found.hitTokens === sequence.knownTokens) sequence.computedTokens--;
    return true;
  }

  /** More blocks for a running sequence, so that `tokens` in all fit. False, and nothing has changed, if they do not. */
  extend(sequence: Sequence, tokens: number, now: Nanos): boolean {
    const target = sequence.blocksUpTo(tokens);
    if (target <= sequence.blockCount) return true;
    let needed = target - sequence.blockCount;
    for (let i = sequence.blockCount; i < Math.min(target, sequence.adoptedEnd); i++) {
      if (sequence.table[i] >= 0) needed--;
    }
    if (needed > this.availableBlocks) return false;
    this.#begin(sequence, now);
    if (this.#unlimited && this.#allocator.freeBlocks < needed) this.#grow(needed);
    this.#allocateUpTo(sequence, target, false);
    return true;
  }

  /** The next step computes `sequence.stepTokens` more. */
  scheduled(sequence: Sequence, now: Nanos): void {
    const end = sequence.computedTokens + sequence.stepTokens;
    const last = sequence.blocksUpTo(end);
    assert(last <= sequence.blockCount, "a step computes tokens that have no block");
    const pool = this.#pool;
    for (let i = sequence.computingEnd; i < last; i++) {
      const block = sequence.table[i];
      if (pool.stateOf(block) === reserved) pool.move(block, reserved, computing);
    }
    sequence.computingEnd = last;
    if (this.#publishAtAllocation) this.#publish(sequence, this.#publishable(sequence, end), now);
  }

  /** The step has computed `sequence.stepTokens` tokens; `prefill` tells a prompt chunk from decoding. */
  computed(sequence: Sequence, prefill: boolean, now: Nanos): void {
    const before = sequence.computedTokens;
    sequence.computedTokens += sequence.stepTokens;
    sequence.stepTokens = 0;
    sequence.inStep = false;
    sequence.copiedAt = hole;
    if (this.#publishAtAllocation && this.lookup.history === undefined) return;
    const { history } = this.lookup;
    const from = Math.floor(before / this.blockTokens);
    const done = this.#publishable(sequence, sequence.computedTokens);
    history?.computed(sequence.request, from, done);
    const { publish } = this.rules;
    if (publish === "step" || (publish === "chunk" && prefill)) this.#publish(sequence, done, now);
  }

  /** The request is done: what the rules allow is published, everything is let go. */
  finish(sequence: Sequence, now: Nanos): void {
    this.#publish(sequence, this.#publishable(sequence, sequence.computedTokens), now);
    this.#log?.add(EventKind.finish, now, sequence.request.id, -1, sequence.generatedTokens, -1);
    this.#release(sequence, now);
  }

  /**
   * The step under way will not happen: what it would have computed is taken back, also from the index if the rule
   * `publish=allocation` has put it there already.
   */
  cancelled(sequence: Sequence, now: Nanos): void {
    this.#begin(sequence, now);
    const { table, publishedBlocks } = sequence;
    const computed = sequence.computedBlocks;
    for (let i = publishedBlocks - 1; i >= computed; i--) {
      if (!sequence.sharesAt(i) && this.#pool.stateOf(table[i]) === published) this.index.forget(table[i]);
    }
    sequence.publishedBlocks = Math.min(publishedBlocks, computed);
    this.lookup.history?.forgotten(
      sequence.request,
      computed,
      Math.min(sequence.blockCount, sequence.request.knownBlocks),
    );
    sequence.stepTokens = 0;
    sequence.inStep = false;
  }

  /** Whether `sequence` counts on blocks of `other`'s, found or given in exchange, that the step under way was to compute. */
  dependsOn(sequence: Sequence, other: Sequence): boolean {
    const end = Math.min(other.blockCount, Math.max(sequence.blockCount, sequence.adoptedEnd));
    for (let i = other.computedBlocks; i < end; i++) {
      const isOthers = sequence.table[i] === other.table[i] && !other.sharesAt(i);
      if (isOthers && (i < sequence.cachedBlocks || sequence.sharesAt(i))) return true;
    }
    return false;
  }

  /** The request goes back to the queue; what it has computed can be found if the rules publish before the end. */
  preempt(sequence: Sequence, now: Nanos): void {
    assert(!sequence.inStep, "a sequence is preempted inside a step");
    this.#log?.add(EventKind.preempt, now, sequence.request.id, -1, -1, -1);
    this.#release(sequence, now);
    sequence.computedTokens = sequence.cachedTokens = sequence.cachedBlocks = sequence.publishedBlocks = 0;
    sequence.preemptions++;
    this.counters.preemptions++;
  }

  /** The request is given up. If it never ran, it counts as a lookup without hits. */
  refuse(sequence: Sequence, now: Nanos): void {
    const { counters } = this;
    counters.refusedRequests++;
    this.#begin(sequence, now);
    if (sequence.counted) {
      this.#log?.add(EventKind.refuse, now, sequence.request.id, -1, -1, -1);
      this.#release(sequence, now);
      return;
    }
    this.#policy.begin?.(sequence.request, now);
    counters.lookups++;
    counters.lookupBlocks += sequence.request.promptBlocks;
    counters.fullLookupBlocks += Math.floor(sequence.request.inputTokens / this.blockTokens);
    counters.lookupTokens += sequence.request.inputTokens;
    counters.refusedTokens += sequence.request.inputTokens;
    this.#log?.add(EventKind.refuse, now, sequence.request.id, -1, -1, -1);
  }

  #begin(sequence: Sequence, now: Nanos): void {
    const tick = ++this.entries.tick;
    if (tick > 0xffff_ffff) throw new InvariantError(`${tick} operations, more than a 32-bit tick counts`);
    this.entries.now = now;
    this.entries.request = sequence.request;
  }

  /** The lookup's blocks are this sequence's too from now on. */
  #holdFound(sequence: Sequence, hitBlocks: number): void {
    const { table } = sequence;
    const { adoptedEnd } = this.lookup;
    sequence.adoptedEnd = adoptedEnd;
    const hits = this.lookup.copyLast ? hitBlocks - 1 : hitBlocks;
    const { words } = this.#pool;
    if (hitBlocks > 0) this.index.cut?.(table, hitBlocks);
    if (hits !== hitBlocks && hits > 0) this.index.cut?.(table, hits);
    const list = this.#listOf(Math.max(hits, adoptedEnd));
    let count = hold(table, 0, hits, words, list, 0);
    if (adoptedEnd > hitBlocks) {
      count = hold(table, hitBlocks, adoptedEnd, words, list, count);
      for (let i = hitBlocks; i < adoptedEnd; i++) if (table[i] >= 0) sequence.shareAt(i);
    }
    if (count > 0) this.index.held(list, count);
    if (hitBlocks > 0) this.index.matched(table, hitBlocks);
  }

  #hold(block: BlockId): void {
    const pool = this.#pool;
    const first = pool.holdersOf(block) === 0;
    if (first) pool.move(block, idle, published);
    pool.addHolders(block, 1);
    if (!first) return;
    const list = this.#listOf(1);
    list[0] = block;
    this.index.held(list, 1);
  }

  #listOf(count: number): Int32Array {
    if (count > this.#list.length) this.#list = new Int32Array(2 * count);
    return this.#list;
  }

  #grow(blocks: number): void {
    const blockCount = Math.max(2 * this.#pool.blockCount, this.#pool.blockCount + blocks);
    this.#pool.grow(blockCount);
    this.entries.grow(blockCount);
    this.index.grow(blockCount);
    this.#allocator.grow(blockCount);
  }

  /**
   * Own blocks for the holes in `[blockCount, to)` of the table: free ones, then those that eviction frees. The first one
   * is to begin with what is in `source`, which may be gone by now, but not before the step's copies are made.
   */
  #allocateUpTo(sequence: Sequence, to: number, wholePrompt: boolean, source = hole): void {
    sequence.reserve(to);
    const { table, request, adoptedEnd, blockCount: from } = sequence;
    if (adoptedEnd <= from) {
      const computingTo = Math.max(from, Math.min(to, sequence.computingEnd));
      // A prompt that one step computes whole and that is published as it is allocated takes the shorter way.
      const whole = wholePrompt && this.#publishAtAllocation && to === request.promptBlocks;
      if (whole) sequence.presumedTo = to;
      this.#own(table, from, computingTo, whole ? publishedOnce : computingOnce);
      this.#own(table, computingTo, to, reservedOnce);
    } else {
      for (let i = from; i < to; i++) {
        const vacant = i >= adoptedEnd || table[i] < 0;
        if (vacant) this.#own(table, i, i + 1, i < sequence.computingEnd ? computingOnce : reservedOnce);
      }
    }
    if (source !== hole) {
      sequence.copiedAt = from;
      this.#copy(sequence, source, from);
    }
    if (this.#log) this.#logAllocations(sequence, source === hole ? from : from + 1, to, this.#log);
    this.lookup.history?.computing(request, from, Math.max(from, Math.min(to, request.knownBlocks)));
    sequence.blockCount = to;
  }

  #own(table: Int32Array, from: number, to: number, word: number): void {
    if (from >= to) return;
    const { words } = this.#pool;
    const evictedFrom = this.entries.take(table, from, to);
    const wrong = own(table, from, evictedFrom, words, freeWord, word);
    if (wrong >= 0) this.#pool.move(table[wrong], free, reserved);
    const held = own(table, evictedFrom, to, words, idleWord, word);
    if (held >= 0) this.entries.refuseVictim(table[held]);
  }

  #logAllocations(sequence: Sequence, from: number, to: number, log: EventLog): void {
    const { table, request, adoptedEnd } = sequence;
    for (let i = from; i < to; i++) {
      const adopted = i < adoptedEnd && this.#pool.stateOf(table[i]) === published;
      if (!adopted) log.add(EventKind.allocate, this.entries.now, request.id, table[i], -1, i);
    }
  }

  #copyLast(sequence: Sequence, at: number): void {
    const source = sequence.table[at];
    this.#own(sequence.table, at, at + 1, computingOnce);
    this.#copy(sequence, source, at);
  }

  /** The request's own block i begins with what is in `source`. */
  #copy(sequence: Sequence, source: BlockId, i: number): void {
    const target = sequence.table[i];
    this.counters.copiedBlocks++;
    this.copies.push({ source, target });
    this.#log?.add(EventKind.copy, this.entries.now, sequence.request.id, target, source, i);
  }

  /** A cached block that nobody uses or extends becomes the request's own next block. */
  #steal(sequence: Sequence, block: BlockId): void {
    const at = sequence.blockCount++;
    sequence.table[at] = block;
    this.#log?.add(EventKind.adopt, this.entries.now, sequence.request.id, block, -1, at);
    this.#hold(block);
    this.index.forget(block);
    if (at < sequence.request.knownBlocks) this.lookup.history?.computing(sequence.request, at, at + 1);
  }

  /** How many of the sequence's blocks may be found once `tokens` tokens are computed. */
  #publishable(sequence: Sequence, tokens: number): number {
    const { request } = sequence;
    const { promptBlocks, knownBlocks, inputTokens } = request;
    if (tokens >= inputTokens && knownBlocks === promptBlocks) return promptBlocks;
    const full = Math.floor(tokens / this.blockTokens);
    return tokens >= inputTokens ? Math.max(promptBlocks, Math.min(full, knownBlocks)) : Math.min(full, promptBlocks);
  }

  #publish(sequence: Sequence, to: number, now: Nanos): void {
    const from = sequence.publishedBlocks;
    if (to <= from) return;
    const { request, table } = sequence;
    this.#begin(sequence, now);
    const insertion = this.#insertion;
    insertion.keys = request.keys;
    insertion.start = request.keyStart;
    insertion.table = table;
    insertion.from = from;
    insertion.to = to;
    insertion.promptBlocks = request.promptBlocks;
    insertion.promptTokens = request.inputTokens;
    insertion.partialAt = request.partialAt;
    if (to - from > insertion.instead.length) insertion.instead = new Int32Array(2 * (to - from));
    const asTheyAre = this.index.insert(insertion);
    const presumed = Math.max(from, sequence.presumedTo);
    sequence.presumedTo = 0;
    if (asTheyAre && this.#log === undefined) {
      this.counters.insertedBlocks += presumed - from + publishOwn(table, presumed, to, this.#pool.words);
    } else {
      for (let i = from; i < presumed; i++) this.#pool.move(table[i], published, computing);
      const { instead } = insertion;
      for (let i = from; i < to; i++) this.#publishBlock(sequence, i, asTheyAre ? table[i] : instead[i - from], now);
    }
    sequence.publishedBlocks = to;
  }

  /** The index has stored block i, or has `other` with the same content, or does not store it. */
  #publishBlock(sequence: Sequence, i: number, other: BlockId, now: Nanos): void {
    const mine = sequence.table[i];
    if (other === hole) return;
    if (other !== mine) {
      this.#giveWay(sequence, i, other);
    } else if (this.#pool.stateOf(mine) === computing) {
      this.#pool.move(mine, computing, published);
      this.counters.insertedBlocks++;
      if (this.#log === undefined) return;
      const { request } = sequence;
      const key = request.keys[request.keyStart + i];
      this.entries.stored(mine, key, blockEnd(i, this.blockTokens, request.promptBlocks, request.inputTokens));
      this.#log.add(EventKind.publish, now, request.id, mine, key, i);
    }
  }

  /** Equal content is stored in `other`: the sequence uses that block from now on and its own one is free. */
  #giveWay(sequence: Sequence, i: number, other: BlockId): void {
    const mine = sequence.table[i];
    if (i === sequence.copiedAt) this.#withdrawCopy(sequence, mine);
    this.#log?.add(EventKind.duplicate, this.entries.now, sequence.request.id, mine, other, i);
    this.#hold(other);
    sequence.table[i] = other;
    sequence.shareAt(i);
    assert(this.#pool.holdersOf(mine) === 1, "a private block had two holders");
    this.#pool.addHolders(mine, -1);
    this.#pool.move(mine, computing, free);
    this.#free(mine);
  }

  /** The block that was to begin with a copy is not the sequence's any more. */
  #withdrawCopy(sequence: Sequence, target: BlockId): void {
    sequence.copiedAt = hole;
    const at = this.copies.findLastIndex((copy) => copy.target === target);
    if (at >= 0) this.copies.splice(at, 1);
  }

  /**
   * Lets every block of the sequence go, in the order of the rule `free-order`: what others hold stays, what is cached
   * becomes idle, the rest is free.
   */
  #release(sequence: Sequence, now: Nanos): void {
    this.#begin(sequence, now);
    const { table } = sequence;
    const count = Math.max(sequence.blockCount, sequence.adoptedEnd);
    const { words } = this.#pool;
    const list = this.#listOf(count);
    const released = letGo(table, count, this.#forward, words, list);
    if (released < count) {
      for (let i = count - 1; i >= 0; i--) if (table[i] >= 0 && words[table[i]] === freeWord) this.#free(table[i]);
    }
    if (released > 0) this.index.released(list, released);
    if (this.#log) this.#logReleases(list, released, this.#log);
    sequence.letGoOfAll();
  }

  #logReleases(blocks: Int32Array, count: number, log: EventLog): void {
    const { now, request } = this.entries;
    for (let i = 0; i < count; i++) log.add(EventKind.release, now, request.id, blocks[i], -1, 1);
  }

  /** A private block that is in no table any more. */
  #free(block: BlockId): void {
    this.#allocator.release(block);
    this.#log?.add(EventKind.release, this.entries.now, this.entries.request.id, block, -1, 0);
  }
}
