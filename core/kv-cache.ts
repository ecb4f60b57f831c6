import { countMarked, countUnheld, hold, letGo, markContents, publishOwn } from "./block-loops.ts";
import type { CacheEntries } from "./cache-entries.ts";
import { type Counters, Miss, missReasons } from "./counters.ts";
import { assert, InvariantError } from "./errors.ts";
import { EventKind, type EventLog } from "./events.ts";
import type { Allocator, BlockId, EvictionPolicy, Insertion, PrefixIndex } from "./plugins.ts";
import { type BlockPool, BlockState } from "./pool.ts";
import { hole, type Request, type Sequence } from "./request.ts";
import type { Rules } from "./rules.ts";
import type { BlockCopy } from "./step.ts";
import type { Nanos } from "./trace.ts";

// Module constants, because a property of an imported object costs a load in the innermost loops.
const free = BlockState.free;
const reserved = BlockState.reserved;
const computing = BlockState.computing;
const published = BlockState.published;
const idle = BlockState.idle;

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
}

/** What a lookup found; reused, valid until the next one. */
export interface Lookup {
  hitBlocks: number;
  hitTokens: number;
  /** Blocks that are needed besides those found. */
  neededBlocks: number;
  /** Found blocks that nobody holds: holding them makes fewer evictable. */
  idleBlocks: number;
  /** The last hit block is in use by others and must be copied before its last token is computed again. */
  copyLast: boolean;
}

/** Whether somebody has computed a content before: the difference between "never seen" and "evicted". */
const Seen = { never: 0, computed: 1, computing: 2 } as const;

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
  readonly #adopt: boolean;
  readonly #forward: boolean;
  readonly #countsHits: boolean;
  /** Blocks on their way to the index. */
  #list = new Int32Array(256);
  readonly #lookup: Lookup = { hitBlocks: 0, hitTokens: 0, neededBlocks: 0, idleBlocks: 0, copyLast: false };
  readonly #missBlocks = new Int32Array(missReasons.length);
  #lastMiss = 0;
  #residentBlocks = 0;
  #seen: Uint8Array = new Uint8Array(1 << 10);
  #seenPlain: Uint8Array | undefined;
  readonly #insertion: { -readonly [Field in keyof Insertion]: Insertion[Field] } = {
    keys: new Uint32Array(0),
    start: 0,
    table: new Int32Array(0),
    from: 0,
    to: 0,
    promptBlocks: 0,
    promptTokens: 0,
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
    this.#adopt = parts.rules.duplicates === "adopt";
    this.#forward = parts.rules["free-order"] === "forward";
    this.#countsHits = parts.entries.countsHits;
    this.#publishAtAllocation = parts.rules.publish === "allocation";
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
  isFree(block: BlockId): boolean {
    return this.#allocator.isFree(block);
  }

  /** Content ids below `distinct` may come from now on. */
  expectKeys(distinct: number): void {
    if (distinct <= this.#seen.length) return;
    this.#seen = largerBytes(this.#seen, distinct);
    this.index.expectKeys(distinct);
  }

  /** Tokens that an admission would find; changes nothing but `sequence.table`, which a waiting sequence does not use. */
  cachedTokens(sequence: Sequence): number {
    const blocks = this.#knownBlocks(sequence);
    sequence.reserve(blocks);
    const { keys, keyStart } = sequence.request;
    const found = this.index.match(keys, keyStart, blocks, sequence.table);
    return this.#tokensOf(this.#usable(found, sequence, blocks), sequence.knownTokens);
  }

  /**
   * Holds the cached prefix and allocates for at most `tokens` more. Returns whether the blocks were there; if not,
   * nothing has changed.
   */
  admit(sequence: Sequence, tokens: number, now: Nanos): boolean {
    const target = this.#look(sequence, tokens);
    const found = this.#lookup;
    const needed = found.neededBlocks;
    if (needed > this.availableBlocks - found.idleBlocks) return false;
    this.#begin(sequence, now);
    this.#policy.begin?.(sequence.request, now);
    this.#count(sequence);
    this.#log?.add(EventKind.admit, now, sequence.request.id, -1, found.hitTokens, found.hitBlocks);
    this.#holdFound(sequence, found.hitBlocks);
    this.#makeRoom(needed);
    if (found.copyLast) this.#copyLast(sequence, found.hitBlocks - 1);
    const stepEnd = Math.min(sequence.knownTokens, found.hitTokens + tokens);
    sequence.computingEnd = Math.ceil(stepEnd / this.blockTokens);
    this.#allocateUpTo(sequence, found.hitBlocks, target);
    sequence.cachedBlocks = sequence.publishedBlocks = found.hitBlocks;
    sequence.cachedTokens = sequence.computedTokens = found.hitTokens;
    if (found.hitTokens === sequence.knownTokens && this.rules["full-hit"] === "recompute-last")
      sequence.computedTokens--;
    return true;
  }

  /** More blocks for a running sequence, so that `tokens` in all fit. False, and nothing has changed, if they do not. */
  extend(sequence: Sequence, tokens: number, now: Nanos): boolean {
    const target = Math.ceil(tokens / this.blockTokens);
    if (target <= sequence.blockCount) return true;
    let needed = target - sequence.blockCount;
    for (let i = sequence.blockCount; i < Math.min(target, sequence.adoptedEnd); i++) {
      if (sequence.table[i] !== hole) needed--;
    }
    if (needed > this.availableBlocks) return false;
    this.#begin(sequence, now);
    this.#makeRoom(needed);
    this.#allocateUpTo(sequence, sequence.blockCount, target);
    return true;
  }

  /** The next step computes `sequence.stepTokens` more. */
  scheduled(sequence: Sequence, now: Nanos): void {
    const end = sequence.computedTokens + sequence.stepTokens;
    const last = Math.ceil(end / this.blockTokens);
    const { state } = this.#pool;
    const { table } = sequence;
    for (let i = sequence.computingEnd; i < last; i++) if (state[table[i]] === reserved) state[table[i]] = computing;
    sequence.computingEnd = last;
    if (this.#publishAtAllocation) this.#publish(sequence, this.#publishable(sequence, end), now);
  }

  /** The step has computed `sequence.stepTokens` tokens; `prefill` tells a prompt chunk from decoding. */
  computed(sequence: Sequence, prefill: boolean, now: Nanos): void {
    const from = Math.floor(sequence.computedTokens / this.blockTokens);
    sequence.computedTokens += sequence.stepTokens;
    sequence.stepTokens = 0;
    const { publish } = this.rules;
    if (publish === "allocation") return;
    const done = this.#publishable(sequence, sequence.computedTokens);
    const { keys, keyStart } = sequence.request;
    for (let i = from; i < done; i++) this.#seen[keys[keyStart + i]] = Seen.computed;
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
    const { table } = sequence;
    const computed = Math.floor(sequence.computedTokens / this.blockTokens);
    for (let i = sequence.publishedBlocks - 1; i >= Math.max(computed, sequence.cachedBlocks); i--) {
      if (this.#pool.state[table[i]] === published && i >= sequence.adoptedEnd) this.index.forget(table[i]);
    }
    sequence.publishedBlocks = Math.min(sequence.publishedBlocks, Math.max(computed, sequence.cachedBlocks));
    sequence.stepTokens = 0;
  }

  /** The request goes back to the queue; what it has computed can be found if the rules publish before the end. */
  preempt(sequence: Sequence, now: Nanos): void {
    assert(sequence.stepTokens === 0, "a sequence is preempted inside a step");
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

  /** Blocks that a sequence needs at once in the worst case: more than the cache has means that it can never run. */
  blocksFor(sequence: Sequence): number {
    return Math.ceil(this.#reservedTokens(sequence, sequence.knownTokens) / this.blockTokens);
  }

  #begin(sequence: Sequence, now: Nanos): void {
    const tick = ++this.entries.tick;
    if (tick > 0xffff_ffff) throw new InvariantError(`${tick} operations, more than a 32-bit tick counts`);
    this.entries.now = now;
    this.entries.request = sequence.request.id;
  }

  /** Blocks of the sequence whose content is known and may be matched. */
  #knownBlocks(sequence: Sequence): number {
    const { request } = sequence;
    if (sequence.generatedTokens === 0) return request.promptBlocks;
    const generated = Math.floor(sequence.knownTokens / this.blockTokens);
    return Math.max(request.promptBlocks, Math.min(request.knownBlocks, generated));
  }

  /** Of `found` matched blocks, those that the rules let a request use. */
  #usable(found: number, sequence: Sequence, blocks: number): number {
    let usable = found;
    if (this.rules["match-limit"] !== "all") {
      usable = Math.min(usable, blocks, Math.floor((sequence.knownTokens - 1) / this.blockTokens));
    }
    return Math.max(0, usable - this.rules["drop-blocks"]);
  }

  #tokensOf(blocks: number, knownTokens: number): number {
    return Math.min(blocks * this.blockTokens, knownTokens);
  }

  #reservedTokens(sequence: Sequence, tokens: number): number {
    if (this.rules.reserve === "grow") return tokens;
    return sequence.request.inputTokens + Math.max(0, sequence.request.maxOutputTokens - 1);
  }

  /** Fills `#lookup` and `sequence.table` without changing anything else; returns the table's length after admission. */
  #look(sequence: Sequence, tokens: number): number {
    const { request, table: before } = sequence;
    const { blockTokens } = this;
    const known = sequence.knownTokens;
    const blocks = this.#knownBlocks(sequence);
    if (blocks > before.length) sequence.reserve(blocks);
    const { keys, keyStart } = request;
    const matched = this.index.match(keys, keyStart, blocks, sequence.table);
    const hits = this.#usable(matched, sequence, blocks);
    const hitTokens = this.#tokensOf(hits, known);
    const wanted = this.#reservedTokens(sequence, Math.min(known, hitTokens + tokens));
    const target = Math.max(hits, Math.ceil(wanted / blockTokens));
    sequence.reserve(target);
    const { table } = sequence;
    const { refCount } = this.#pool;
    let unheld = countUnheld(table, 0, hits, refCount);
    const found = this.#lookup;
    found.copyLast =
      hitTokens === known && hits > 0 && this.rules["full-hit"] === "recompute-last" && refCount[table[hits - 1]] > 0;
    const resident = this.#classify(request, table, hits, matched, blocks);
    if (resident > hits && !this.#adopt) table.fill(hole, hits, blocks);
    const adoptedEnd = resident > hits && this.#adopt ? blocks : hits;
    let adopted = 0;
    for (let i = hits; i < Math.min(target, adoptedEnd); i++) if (table[i] !== hole) adopted++;
    unheld += countUnheld(table, hits, adoptedEnd, refCount);
    for (let i = blocks; i < target; i++) table[i] = hole;
    this.#residentBlocks = resident;
    found.hitBlocks = hits;
    found.hitTokens = hitTokens;
    found.neededBlocks = target - hits - adopted + (found.copyLast ? 1 : 0);
    found.idleBlocks = unheld;
    sequence.adoptedEnd = adoptedEnd;
    return target;
  }

  /**
   * Why the prompt blocks from `hits` on were missed, into `#missBlocks`, counted in blocks: only the last can be
   * shorter, and its reason is kept for that. Returns how many of all are resident.
   */
  #classify(request: Request, table: Int32Array, hits: number, matched: number, blocks: number): number {
    if (hits >= blocks) return hits;
    const { keys, keyStart } = request;
    const { plainKeys } = request.blocks;
    const missBlocks = this.#missBlocks;
    const evicted = countMarked(table, matched, blocks, this.#seen, keys, keyStart, Seen.computed);
    let neverSeen = countMarked(table, matched, blocks, this.#seen, keys, keyStart, Seen.never);
    let computing = 0;
    if (!this.#publishAtAllocation) {
      computing = countMarked(table, matched, blocks, this.#seen, keys, keyStart, Seen.computing);
    }
    let elsewhere = 0;
    if (plainKeys && neverSeen > 0) {
      for (let i = matched; i < blocks; i++) {
        if (this.#whyMissing(request, table, matched, i) === Miss.otherNamespace) elsewhere++;
      }
      neverSeen -= elsewhere;
    }
    const absent = evicted + neverSeen + computing + elsewhere;
    missBlocks[Miss.neverSeen] = neverSeen;
    missBlocks[Miss.evicted] = evicted;
    missBlocks[Miss.notYetComputed] = computing;
    missBlocks[Miss.otherNamespace] = elsewhere;
    missBlocks[Miss.matchLimit] = matched - hits;
    missBlocks[Miss.pastHole] = blocks - matched - absent;
    this.#lastMiss = this.#whyMissing(request, table, matched, blocks - 1);
    return blocks - absent;
  }

  #whyMissing(request: Request, table: Int32Array, matched: number, i: number): number {
    const at = request.keyStart + i;
    if (table[i] !== hole) return i < matched ? Miss.matchLimit : Miss.pastHole;
    const was = this.#seen[request.keys[at]];
    if (was === Seen.computed) return Miss.evicted;
    if (was === Seen.computing) return Miss.notYetComputed;
    const { plainKeys } = request.blocks;
    return plainKeys && this.#seenPlain?.[plainKeys[at]] === 1 ? Miss.otherNamespace : Miss.neverSeen;
  }

  /** The lookup just made enters the figures, once a request. */
  #count(sequence: Sequence): void {
    const { counters, blockTokens } = this;
    const { hitBlocks, hitTokens } = this.#lookup;
    if (sequence.counted) {
      counters.rehitTokens += hitTokens;
      return;
    }
    sequence.counted = true;
    const { inputTokens, promptBlocks } = sequence.request;
    counters.lookups++;
    counters.lookupBlocks += promptBlocks;
    counters.lookupTokens += inputTokens;
    counters.hitBlocks += hitBlocks;
    counters.hitTokens += hitTokens;
    const fullBlocks = Math.floor(inputTokens / blockTokens);
    counters.fullLookupBlocks += fullBlocks;
    counters.fullHitBlocks += Math.min(hitBlocks, fullBlocks);
    counters.residentBlocks += this.#residentBlocks;
    if (promptBlocks > 0) counters.blockRatioSum += hitBlocks / promptBlocks;
    counters.tokenRatioSum += hitTokens / inputTokens;
    const { missTokens } = counters;
    if (hitBlocks < promptBlocks) {
      const missBlocks = this.#missBlocks;
      for (let reason = 0; reason < missBlocks.length; reason++) {
        if (missBlocks[reason] > 0) missTokens[reason] += missBlocks[reason] * blockTokens;
      }
      const beyond = promptBlocks * blockTokens - inputTokens;
      if (beyond > 0) missTokens[this.#lastMiss] -= beyond;
    }
    const short = inputTokens - promptBlocks * blockTokens;
    if (short > 0) missTokens[Miss.shorterThanBlock] += short;
    if (this.#log) this.#logLookup(sequence, this.#log);
  }

  #logLookup(sequence: Sequence, log: EventLog): void {
    const { request, table } = sequence;
    const { now } = this.entries;
    for (let i = 0; i < request.promptBlocks; i++) {
      const key = request.keys[request.keyStart + i];
      if (i < this.#lookup.hitBlocks) log.add(EventKind.hit, now, request.id, table[i], key, i);
      else if (table[i] !== hole) log.add(EventKind.adopt, now, request.id, table[i], key, i);
      else log.add(EventKind.miss, now, request.id, -1, key, this.#whyMissing(request, table, 0, i));
    }
  }

  /** The lookup's blocks are this sequence's too from now on. */
  #holdFound(sequence: Sequence, hitBlocks: number): void {
    const { table, adoptedEnd } = sequence;
    const hits = this.#lookup.copyLast ? hitBlocks - 1 : hitBlocks;
    const { refCount, state } = this.#pool;
    const list = this.#listOf(Math.max(hits, adoptedEnd));
    let count = hold(table, 0, hits, refCount, state, list, 0);
    if (adoptedEnd > hitBlocks) count = hold(table, hitBlocks, adoptedEnd, refCount, state, list, count);
    if (count > 0) this.index.held(list, count);
    if (this.#countsHits) this.index.matched(table, hits);
  }

  #hold(block: BlockId): void {
    if (this.#pool.refCount[block]++ > 0) return;
    this.#pool.move(block, idle, published);
    const list = this.#listOf(1);
    list[0] = block;
    this.index.held(list, 1);
  }

  #listOf(count: number): Int32Array {
    if (count > this.#list.length) this.#list = new Int32Array(2 * count);
    return this.#list;
  }

  /** Evicts, or grows an unlimited pool, until `blocks` are free. */
  #makeRoom(blocks: number): void {
    const allocator = this.#allocator;
    if (this.#unlimited) {
      if (allocator.freeBlocks < blocks) this.#grow(blocks);
      return;
    }
    this.entries.makeRoom(blocks);
  }

  #grow(blocks: number): void {
    const blockCount = Math.max(2 * this.#pool.blockCount, this.#pool.blockCount + blocks);
    this.#pool.grow(blockCount);
    this.entries.columns.grow(blockCount);
    this.index.grow(blockCount);
    this.#allocator.grow(blockCount);
  }

  /** Own blocks for the holes in `[from, to)` of the table; there is room. */
  #allocateUpTo(sequence: Sequence, from: number, to: number): void {
    sequence.reserve(to);
    const { table, request, adoptedEnd, computingEnd } = sequence;
    const { keys, keyStart, knownBlocks } = request;
    const allocator = this.#allocator;
    const { state, refCount } = this.#pool;
    const log = this.#log;
    for (let i = from | 0; i < to; i++) {
      if (i < adoptedEnd && table[i] >= 0) continue;
      const block = allocator.allocate();
      if (state[block] !== free) this.#pool.move(block, free, reserved);
      state[block] = i < computingEnd ? computing : reserved;
      refCount[block] = 1;
      table[i] = block;
      if (log !== undefined) log.add(EventKind.allocate, this.entries.now, request.id, block, -1, i);
    }
    const known = Math.min(to, knownBlocks);
    markContents(this.#seen, keys, keyStart, from, known, this.#publishAtAllocation ? Seen.computed : Seen.computing);
    const { plainKeys } = request.blocks;
    if (plainKeys) this.#markPlain(plainKeys, keyStart + from, keyStart + known);
    sequence.blockCount = Math.max(sequence.blockCount, to);
  }

  /** The contents of these places have been computed in some namespace. */
  #markPlain(plainKeys: Uint32Array, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      this.#seenPlain = largerBytes(this.#seenPlain ?? new Uint8Array(1 << 10), plainKeys[at] + 1);
      this.#seenPlain[plainKeys[at]] = 1;
    }
  }

  #copyLast(sequence: Sequence, at: number): void {
    const source = sequence.table[at];
    const block = this.#allocator.allocate();
    this.#pool.move(block, free, reserved);
    this.#pool.refCount[block] = 1;
    sequence.table[at] = block;
    this.counters.copiedBlocks++;
    this.copies.push({ source, target: block });
    this.#log?.add(EventKind.copy, this.entries.now, sequence.request.id, block, source, at);
  }

  /** How many of the sequence's blocks may be found once `tokens` tokens are computed. */
  #publishable(sequence: Sequence, tokens: number): number {
    const { request } = sequence;
    const full = Math.floor(tokens / this.blockTokens);
    if (tokens >= request.inputTokens) return Math.max(request.promptBlocks, Math.min(full, request.knownBlocks));
    return Math.min(full, request.promptBlocks);
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
    if (to - from > insertion.instead.length) insertion.instead = new Int32Array(2 * (to - from));
    this.index.insert(insertion);
    const { instead } = insertion;
    const { state } = this.#pool;
    const simple = this.#log === undefined ? publishOwn(table, from, to, instead, state) : -1;
    if (simple >= 0) this.counters.insertedBlocks += simple;
    else for (let i = from; i < to; i++) this.#publishBlock(sequence, i, instead[i - from], now);
    sequence.publishedBlocks = to;
  }

  /** The index has stored block i, or has `other` with the same content, or does not store it. */
  #publishBlock(sequence: Sequence, i: number, other: BlockId, now: Nanos): void {
    const own = sequence.table[i];
    if (other === hole) return;
    if (other !== own) {
      this.#giveWay(sequence, i, other);
    } else if (this.#pool.state[own] === computing) {
      this.#pool.state[own] = published;
      this.counters.insertedBlocks++;
      const { request } = sequence;
      this.#log?.add(EventKind.publish, now, request.id, own, request.keys[request.keyStart + i], i);
    }
  }

  /** Equal content is stored in `other`: the sequence uses that block from now on and its own one is free. */
  #giveWay(sequence: Sequence, i: number, other: BlockId): void {
    const own = sequence.table[i];
    this.#log?.add(EventKind.duplicate, this.entries.now, sequence.request.id, own, other, i);
    this.#hold(other);
    sequence.table[i] = other;
    const holders = --this.#pool.refCount[own];
    assert(holders === 0, "a private block had two holders");
    this.#pool.move(own, computing, free);
    this.#free(own);
  }

  /**
   * Lets every block of the sequence go, in the order of the rule `free-order`: what others hold stays, what is cached
   * becomes idle, the rest is free.
   */
  #release(sequence: Sequence, now: Nanos): void {
    this.#begin(sequence, now);
    const { table } = sequence;
    const count = Math.max(sequence.blockCount, sequence.adoptedEnd);
    const { refCount, state } = this.#pool;
    const list = this.#listOf(count);
    const released = letGo(table, count, this.#forward, refCount, state, list);
    if (released < count) for (let i = 0; i < count; i++) if (table[i] < hole) this.#free(-2 - table[i]);
    if (released > 0) this.index.released(list, released);
    if (this.#log) this.#logReleases(list, released, this.#log);
    sequence.blockCount = sequence.adoptedEnd = sequence.computingEnd = 0;
  }

  #logReleases(blocks: Int32Array, count: number, log: EventLog): void {
    const { now, request } = this.entries;
    for (let i = 0; i < count; i++) log.add(EventKind.release, now, request, blocks[i], -1, 1);
  }

  /** A private block of which the last holder let go. */
  #free(block: BlockId): void {
    this.#allocator.release(block);
    this.#log?.add(EventKind.release, this.entries.now, this.entries.request, block, -1, 0);
  }
}

function largerBytes(bytes: Uint8Array, length: number): Uint8Array {
  if (length <= bytes.length) return bytes;
  const larger = new Uint8Array(Math.max(length, 2 * bytes.length));
  larger.set(bytes);
  return larger;
}
