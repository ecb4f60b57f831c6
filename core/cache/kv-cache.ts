import { assert, InvariantError, PolicyError } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Allocator, BlockId, EvictionPolicy, Fragmentation, PrefixIndex } from "../plugins/index.ts";
import type { Rules } from "../plugins/rules.ts";
import type { Nanos } from "../trace/trace.ts";
import { type BlockCopy, BlockRefs, privateWord } from "./block-refs.ts";
import { hole } from "./block-table.ts";
import { type CacheEntries, operatorRequest } from "./cache-entries.ts";
import type { ClientSessions } from "./client-sessions.ts";
import { Counters } from "./counters.ts";
import { type Admission, Lookup } from "./lookup.ts";
import { type BlockPool, BlockState } from "./pool.ts";
import { Publication } from "./publication.ts";
import type { CacheRequests } from "./replica-requests.ts";
import type { Request, Sequence } from "./request.ts";

const { reserved, computing, published } = BlockState;

/** The components of a cache; `createCache` in core/replica/compose.ts creates them. */
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
  /** Requests of the replica, which the policy reads. */
  readonly requests: CacheRequests;
  /** Sessions of the requests, and signals of their clients. */
  readonly sessions: ClientSessions;
  readonly log: EventLog | undefined;
  /** Requests come from more than one namespace. */
  readonly namespaces: boolean;
}

/**
 * The KV cache of one model instance: prefix index + eviction policy + allocator + reuse rules. Reference counts and hit
 * counts are kept here only, so that they mean the same for every plug-in. The blocks of a request:
 *
 *   prompt   [0 ....... cached)  [cached ... full)   [full ... end)
 *   owner    shared, ref + 1     new, published      private, freed at release
 */
export class KvCache {
  readonly blockTokens: number;
  readonly rules: Rules;
  readonly counters: Counters;
  readonly entries: CacheEntries;
  readonly requests: CacheRequests;
  readonly sessions: ClientSessions;
  readonly index: PrefixIndex;
  readonly refs: BlockRefs;
  /** Prefixes that an operator has pinned. */
  readonly pins = new Set<Sequence>();
  readonly log: EventLog | undefined;
  /** The read-only part of an admission. */
  readonly lookup: Lookup;
  /** Id of the first measured request: lookups of warm-up requests are not counted, whenever they are served. */
  countFrom = 0;
  readonly #uncounted = new Counters();
  readonly #policy: EvictionPolicy;
  readonly #allocator: Allocator;
  readonly #publication: Publication;
  readonly #unlimited: boolean;
  // Rules that the hot path reads.
  readonly #publishAtAllocation: boolean;
  readonly #recomputeLast: boolean;
  /** Hits share memory, but their tokens are computed again. */
  readonly recomputesHits: boolean;
  readonly #limits: boolean;
  /** The eviction policy decides which blocks are stored. */
  readonly #admits: boolean;
  /** Unreferenced entries expire. */
  readonly expires: boolean;
  /** Signals of clients have a receiver. */
  readonly #hasSignals: boolean;
  readonly #evictsNeeded: boolean;
  readonly #evictsAtFailure: boolean;
  #distinct = 0;

  constructor(parts: CacheParts) {
    const { blockTokens, rules, counters, entries, index, log } = parts;
    this.blockTokens = blockTokens;
    this.rules = rules;
    this.counters = counters;
    this.entries = entries;
    this.requests = parts.requests;
    this.sessions = parts.sessions;
    this.#hasSignals = parts.sessions.areUsed;
    this.index = index;
    this.#policy = parts.policy;
    this.#allocator = parts.allocator;
    this.log = log;
    this.#unlimited = parts.blocks === undefined;
    this.#publishAtAllocation = rules.publish === "allocation";
    this.#recomputeLast = rules["full-hit"] !== "stored-logits";
    this.recomputesHits = rules["hit-compute"] === "recompute";
    this.#limits = rules["max-entries"] !== "unlimited" || rules["prefix-blocks"] !== "unlimited";
    this.#admits = parts.policy.admits !== undefined;
    this.expires = parts.policy.nextToExpire !== undefined;
    this.#evictsNeeded = rules["evict-amount"] === "needed";
    this.#evictsAtFailure = rules["failed-admission"] === "evicts";
    const forward = rules["free-order"] === "forward";
    this.refs = new BlockRefs({ index, entries, counters, log, forward, unlimited: this.#unlimited });
    const storesTails = rules["store-tail"] === "true";
    this.#publication = new Publication(index, entries, this.refs, counters, log, blockTokens, storesTails);
    this.lookup = new Lookup(parts, this.pool);
  }

  /** The warm-up has ended: all metrics begin here. */
  beginMetrics(): void {
    this.counters.reset();
    if (this.log) this.log.measuredFrom = this.log.dropped + this.log.count;
  }

  /** Every computed block is stored until its space is needed: the policy neither refuses blocks nor lets entries expire. */
  get storesAll(): boolean {
    return !this.#admits && !this.expires;
  }

  /** The policy reads times: a replay without a clock has arrival times. */
  get readsTimes(): boolean {
    return this.expires || this.sessions.haveListener;
  }

  get totalBlocks(): number | undefined {
    return this.#unlimited ? undefined : this.pool.blockCount;
  }
  get pool(): BlockPool {
    return this.entries.pool;
  }
  get freeBlocks(): number {
    return this.#allocator.freeBlocks;
  }
  get availableBlocks(): number {
    return this.#unlimited ? Number.POSITIVE_INFINITY : this.#allocator.freeBlocks + this.index.evictableBlocks;
  }
  get referencedBlocks(): number {
    return this.pool.blockCount - this.#allocator.freeBlocks - this.index.evictableBlocks;
  }
  /** Whether a sequence has had a copy-on-write pending; where none ever had, the hot path does not look for one. */
  usesCopyOnWrite = false;

  /** Block copies of the step under way, made before it runs; cleared by the next plan. */
  get copies(): BlockCopy[] {
    return this.refs.copies;
  }
  /** Fragmentation of the allocator; undefined if block numbers do not matter to it. */
  get fragmentation(): Fragmentation | undefined {
    return this.#allocator.fragmentation?.();
  }
  /** The allocator's free blocks in the order of allocation; for audits. */
  freeList(): Iterable<BlockId> {
    return this.#allocator.free();
  }

  /** Content ids below `distinct` may occur from now on. */
  expectKeys(distinct: number): void {
    if (distinct <= this.#distinct) return;
    this.#distinct = distinct;
    this.lookup.history?.expectKeys(distinct);
    this.index.expectKeys(distinct);
  }

  /** Hit tokens that an admission would have; changes nothing. */
  cachedTokens(sequence: Sequence): number {
    this.expectKeys(sequence.request.blocks.distinct);
    return this.lookup.cachedTokens(sequence);
  }

  /**
   * References the cached prefix and allocates blocks for at most `tokens` more. False if there are too few available blocks, or
   * fewer than `spareBlocks` would be left; nothing changes then, unless the rule is `failed-admission=evicts`.
   */
  admit(sequence: Sequence, tokens: number, now: Nanos, spareBlocks = 0): boolean {
    this.requests.admitting(sequence);
    const isAdmitted = this.#admit(sequence, tokens, now, spareBlocks);
    this.requests.admitting(undefined);
    return isAdmitted;
  }

  #admit(sequence: Sequence, tokens: number, now: Nanos, spareBlocks: number): boolean {
    this.advanceTo(now);
    const { lookup } = this;
    const admission = lookup.planAdmission(sequence, tokens);
    const { hitBlocks, hitTokens, neededBlocks } = admission;
    const availableBlocks = this.availableBlocks - admission.idleBlocks;
    if (neededBlocks > availableBlocks - spareBlocks) {
      if (this.#evictsAtFailure && neededBlocks > availableBlocks) this.#evictAllBut(sequence, admission, now);
      return false;
    }
    this.begin(sequence, now);
    this.#policy.begin?.(sequence.request, now);
    lookup.count(sequence, this.#countersOf(sequence));
    if (this.log) lookup.log(sequence, this.log, now);
    this.#referenceFound(sequence, admission);
    this.#makeRoom(neededBlocks);
    if (admission.copyLast) this.#copyLast(sequence, hitBlocks - 1);
    const { blocks } = sequence;
    if (admission.copyLater) {
      blocks.copyOnWrite(hitBlocks - 1);
      this.usesCopyOnWrite = true;
    }
    const stepEnd = Math.min(sequence.knownTokens, hitTokens + tokens);
    blocks.computing(sequence.blocksUpTo(stepEnd));
    if (admission.stealsPartial) this.#steal(sequence, admission.partialBlock);
    const wholePrompt = stepEnd === sequence.request.inputTokens && !admission.stealsPartial;
    const source = admission.partialTokens > 0 && !admission.stealsPartial ? admission.partialBlock : hole;
    if (admission.tableEnd > blocks.count) this.#allocateUpTo(sequence, admission.tableEnd, wholePrompt, source);
    sequence.cachedTokens = sequence.computedTokens = hitTokens;
    if (this.recomputesHits) sequence.computedTokens = 0;
    else if (this.#recomputeLast && hitTokens === sequence.knownTokens) sequence.computedTokens--;
    return true;
  }

  /**
   * Allocates blocks up to token `tokens` of a running sequence. False, without any change, if there are too few. `oneByOne`: in
   * place of as many allocations of one block.
   */
  extend(sequence: Sequence, tokens: number, now: Nanos, oneByOne = false): boolean {
    const target = Math.max(sequence.blockCount, sequence.blocksUpTo(tokens));
    const { blocks: table, count: blockCount, adoptedEnd, copyAt } = sequence.blocks;
    const writes = copyAt !== hole && tokens > sequence.computedTokens;
    if (target === blockCount && !writes) return true;
    const copies = writes && this.pool.refCountOf(table[copyAt]) > 1;
    let needed = target - blockCount + (copies ? 1 : 0);
    for (let i = blockCount; i < Math.min(target, adoptedEnd); i++) if (table[i] >= 0) needed--;
    if (needed > this.availableBlocks) return false;
    if (writes) sequence.blocks.copyOnWrite(hole);
    if (needed === 0 && target === blockCount) return true;
    this.begin(sequence, now);
    if (oneByOne) this.refs.reserve(needed);
    else this.#makeRoom(needed);
    if (copies) {
      this.pool.addRefs(table[copyAt], -1);
      this.#copyLast(sequence, copyAt);
    }
    if (target > blockCount) this.#allocateUpTo(sequence, target, false);
    return true;
  }

  /** The sequence is in the next step, which computes `sequence.stepTokens` of its tokens. */
  scheduled(sequence: Sequence, now: Nanos): void {
    const end = sequence.computedTokens + sequence.stepTokens;
    const last = sequence.blocksUpTo(end);
    assert(last <= sequence.blockCount, "a step computes tokens that have no block");
    const { pool } = this;
    for (let i = sequence.blocks.computingEnd; i < last; i++) {
      const block = sequence.table[i];
      if (pool.stateOf(block) === reserved) pool.move(block, reserved, computing);
    }
    sequence.blocks.computing(last);
    if (this.#publishAtAllocation) this.#publish(sequence, this.#publication.blocksAt(sequence, end), now);
  }

  /** The step has computed `sequence.stepTokens` tokens; `isChunk`: of the prompt, and the request goes on. */
  computed(sequence: Sequence, isChunk: boolean, now: Nanos): void {
    const before = sequence.computedTokens;
    sequence.computedTokens += sequence.stepTokens;
    sequence.stepTokens = 0;
    sequence.inStep = false;
    // Most steps copy nothing, and need not load the block table of every sequence.
    if (this.copies.length > 0) sequence.blocks.endCopy();
    const { history } = this.lookup;
    // Accepted draft tokens are published here, because they were not known at their allocation.
    if (this.#publishAtAllocation && history === undefined && sequence.draftTokens === 0) return;
    const { publish } = this.rules;
    const done = this.#publication.blocksAt(sequence, sequence.computedTokens);
    history?.computed(sequence.request, Math.floor(before / this.blockTokens), this.#computedBlocks(sequence, done));
    if (publish === "step" || (sequence.draftTokens > 0 && this.#publishAtAllocation))
      this.#publish(sequence, done, now);
    // With `generation: "skip"` one step computes prompt and output; only the prompt is a chunk.
    sequence.draftTokens = 0;
    if (publish !== "chunk" || !isChunk) return;
    const chunkEnd = Math.min(sequence.computedTokens, Math.max(before, sequence.request.inputTokens));
    this.#publish(sequence, this.#publication.blocksAt(sequence, chunkEnd), now);
  }

  /** Computed blocks with known content, publishable or not. */
  #computedBlocks(sequence: Sequence, publishable: number): number {
    if (this.index.stores === undefined) return publishable;
    return Math.min(sequence.request.knownBlocks, sequence.computedBlocks);
  }

  /**
   * A step has verified draft tokens, of which `sequence.stepTokens` were kept; called before `computed`. Blocks that were
   * allocated for rejected tokens are freed, unless `reserve=worst-case` has allocated them for the output.
   */
  verified(sequence: Sequence, now: Nanos): void {
    const { blocks } = sequence;
    const end = sequence.blocksUpTo(sequence.computedTokens + sequence.stepTokens);
    for (let i = blocks.computingEnd; i < end; i++) {
      const block = sequence.table[i];
      if (this.pool.stateOf(block) === reserved) this.pool.move(block, reserved, computing);
    }
    if (end > blocks.computingEnd) blocks.computing(end);
    const to = Math.max(end, blocks.adoptedEnd);
    if (blocks.count <= to || this.rules.reserve === "worst-case") return;
    this.begin(sequence, now);
    this.refs.trim(sequence, to);
  }

  /** The request has finished: publishes the blocks that the rules allow, then releases all blocks. */
  finish(sequence: Sequence, now: Nanos): void {
    const blocks = this.#publication.blocksAtEnd(sequence);
    const isPublished = this.#publish(sequence, blocks, now, true);
    if (this.#admits) this.#countersOf(sequence).refusedBlocks += Math.max(0, blocks - sequence.blocks.refusedFrom);
    this.log?.finish(now, sequence.request.id, sequence.generatedTokens);
    if (!isPublished) this.begin(sequence, now);
    this.#release(sequence);
    if (this.#hasSignals) this.sessions.ended(sequence.request, now);
  }

  /**
   * The step under way is rolled back: blocks that it would have computed, and that are published already
   * (`publish=allocation`), are dropped from the index. The sequence is preempted or refused afterwards.
   */
  cancelled(sequence: Sequence, now: Nanos): void {
    this.begin(sequence, now);
    const { blocks } = sequence;
    const computed = sequence.computedBlocks;
    for (let i = blocks.published - 1; i >= computed; i--) {
      const block = blocks.blocks[i];
      if (!blocks.isShared(i) && this.pool.stateOf(block) === published) this.index.drop(block);
    }
    this.lookup.history?.rolledBack(
      sequence.request,
      computed,
      Math.min(sequence.blockCount, sequence.request.knownBlocks),
    );
    sequence.stepTokens = sequence.draftTokens = 0;
    sequence.inStep = false;
  }

  /** Whether `sequence` references blocks of `other` that the step under way computes. */
  dependsOn(sequence: Sequence, other: Sequence): boolean {
    const [own, others] = [sequence.blocks, other.blocks];
    const end = Math.min(others.count, own.end);
    for (let i = other.computedBlocks; i < end; i++) {
      const isComputedByOther = own.blocks[i] === others.blocks[i] && !others.isShared(i);
      if (isComputedByOther && (i < own.cached || own.isShared(i))) return true;
    }
    return false;
  }

  /** Preempts the request: releases its blocks; with `publish=finish` computed blocks are published before. */
  preempt(sequence: Sequence, now: Nanos): void {
    assert(!sequence.inStep, "a sequence is preempted inside a step");
    if (this.rules.publish === "finish") this.#publish(sequence, this.#publication.blocksAtPreemption(sequence), now);
    this.log?.preempt(now, sequence.request.id);
    this.begin(sequence, now);
    this.#release(sequence);
    sequence.blocks.clear();
    sequence.computedTokens = sequence.cachedTokens = 0;
    sequence.preemptions++;
    this.#countersOf(sequence).preemptions++;
  }

  /** The request has arrived at the replica and waits. */
  arrived(request: Request, now: Nanos): void {
    if (this.#hasSignals) this.sessions.arrived(request, now);
  }

  /** Refuses the request. */
  refuse(sequence: Sequence, now: Nanos): void {
    this.#refuse(sequence, now);
    if (this.#hasSignals) this.sessions.ended(sequence.request, now);
  }

  /** A request that was never admitted counts as a lookup without hits. */
  #refuse(sequence: Sequence, now: Nanos): void {
    const counters = this.#countersOf(sequence);
    counters.refusedRequests++;
    this.begin(sequence, now);
    if (sequence.counted) {
      this.log?.refuse(now, sequence.request.id);
      this.#release(sequence);
      return;
    }
    this.#policy.begin?.(sequence.request, now);
    counters.lookups++;
    counters.lookupBlocks += sequence.request.promptBlocks;
    counters.fullLookupBlocks += Math.floor(sequence.request.inputTokens / this.blockTokens);
    counters.lookupTokens += sequence.request.inputTokens;
    counters.refusedTokens += sequence.request.inputTokens;
    this.log?.refuse(now, sequence.request.id);
  }

  /** Evicts the entries that have expired by now, in the order in which they expire. Called before every lookup. */
  advanceTo(now: Nanos): void {
    if (this.expires) this.entries.expireUntil(now);
  }

  /** Time at which the next entry expires; `Infinity` if none does. */
  get nextExpiry(): Nanos {
    return this.expires ? this.entries.nextExpiry : Number.POSITIVE_INFINITY;
  }

  /** Begins an operation of this request; undefined: operator-initiated. */
  begin(sequence: Sequence | undefined, now: Nanos): void {
    this.advanceTo(now);
    const tick = ++this.entries.tick;
    if (tick > 0xffff_ffff) throw new InvariantError(`${tick} operations, more than a 32-bit tick counts`);
    this.entries.now = now;
    this.entries.request = sequence?.request ?? operatorRequest;
  }

  #countersOf({ request }: Sequence): Counters {
    return request.id < this.countFrom ? this.#uncounted : this.counters;
  }

  /** Before an allocation of this many blocks: grows an unlimited pool; evicts them with `evict-amount=needed`. */
  #makeRoom(neededBlocks: number): void {
    this.refs.reserve(neededBlocks);
    if (this.#evictsNeeded && neededBlocks > this.freeBlocks) this.entries.evictBlocks(neededBlocks);
  }

  /**
   * Evicts all evictable entries except those that the failed admission matched, which are renewed. A request that is longer
   * than the cache has no effect.
   */
  #evictAllBut(sequence: Sequence, { hitBlocks, idleBlocks, tableEnd }: Admission, now: Nanos): void {
    if (this.index.evictableBlocks <= idleBlocks || tableEnd > this.pool.blockCount) return;
    this.begin(sequence, now);
    this.refs.whileReferenced(sequence.table, hitBlocks, () => this.entries.evictBlocks(this.pool.blockCount));
  }

  /** References the blocks that the lookup found. */
  #referenceFound({ blocks }: Sequence, { hitBlocks, adoptedEnd, copyLast }: Admission): void {
    const table = blocks.blocks;
    const hits = copyLast ? hitBlocks - 1 : hitBlocks;
    if (hitBlocks > 0) this.index.cut?.(table, hitBlocks);
    if (hits !== hitBlocks && hits > 0) this.index.cut?.(table, hits);
    this.refs.referenceFound(table, hits, hitBlocks, adoptedEnd);
    blocks.admit(hitBlocks, adoptedEnd);
    if (hitBlocks > 0) this.index.matched(table, hitBlocks);
  }

  /**
   * Allocates private blocks for the holes in `[blockCount, to)` of the table, evicting if necessary. The first one is a copy
   * of `source`. If this allocation evicts the source, its content is not overwritten before the step's copies are made.
   */
  #allocateUpTo(sequence: Sequence, to: number, wholePrompt: boolean, source = hole): void {
    const { request, blocks } = sequence;
    blocks.reserve(to);
    const { blocks: table, adoptedEnd, count: from, computingEnd } = blocks;
    const { refs } = this;
    if (adoptedEnd <= from) {
      const computingTo = Math.max(from, Math.min(to, computingEnd));
      // Fast path: a prompt that is computed in one step and published at allocation.
      const whole = wholePrompt && this.#publishAtAllocation && !this.#admits && to === request.promptBlocks;
      if (whole) blocks.presume(to);
      refs.allocatePrivate(table, from, to, whole ? privateWord.published : privateWord.computing, computingTo);
    } else {
      for (let i = from; i < to; i++) {
        const isHole = i >= adoptedEnd || table[i] < 0;
        if (isHole)
          refs.allocatePrivate(table, i, i + 1, i < computingEnd ? privateWord.computing : privateWord.reserved);
      }
    }
    if (source !== hole) {
      blocks.beginCopy(from);
      refs.copy(sequence, source, from);
    }
    if (this.log) this.#logAllocations(sequence, source === hole ? from : from + 1, to, this.log);
    this.lookup.history?.computing(request, from, Math.max(from, Math.min(to, request.knownBlocks)));
    blocks.allocated(to);
  }

  #logAllocations(sequence: Sequence, from: number, to: number, log: EventLog): void {
    const { request } = sequence;
    const { blocks: table, adoptedEnd } = sequence.blocks;
    for (let i = from; i < to; i++) {
      const adopted = i < adoptedEnd && this.pool.stateOf(table[i]) === published;
      if (!adopted) log.allocate(this.entries.now, request.id, table[i], i);
    }
  }

  /** Copy-on-write of a shared block. */
  #copyLast(sequence: Sequence, at: number): void {
    const source = sequence.table[at];
    this.refs.allocatePrivate(sequence.table, at, at + 1, privateWord.computing);
    this.refs.copy(sequence, source, at);
  }

  /** Makes an idle block that no block extends the request's next private block. */
  #steal(sequence: Sequence, block: BlockId): void {
    const at = sequence.blocks.append(block);
    this.log?.adopt(this.entries.now, sequence.request.id, block, -1, at);
    this.refs.reference(block);
    this.index.drop(block);
    if (at < sequence.request.knownBlocks) this.lookup.history?.computing(sequence.request, at, at + 1);
  }

  /** One operation; false if there is nothing to publish. */
  #publish(sequence: Sequence, computed: number, now: Nanos, finishes = false): boolean {
    const to = this.#admits ? this.#admitted(sequence, computed, now) : computed;
    if (to <= sequence.blocks.published) return false;
    this.begin(sequence, now);
    this.#publication.publish(sequence, to, now, finishes);
    if (this.#limits) this.entries.enforceLimits();
    return true;
  }

  /** Blocks of the sequence before the returned place may be stored, of the first `computed`. */
  #admitted({ request, blocks }: Sequence, computed: number, now: Nanos): number {
    const from = blocks.published;
    const to = Math.min(computed, blocks.refusedFrom);
    if (to <= from) return to;
    this.entries.now = now;
    const end = this.#policy.admits!(request, from, to);
    if (!(Number.isInteger(end) && end >= from && end <= to))
      throw new PolicyError(`admits(${from}, ${to}) of the eviction policy returned ${end}, expected ${from} to ${to}`);
    if (end === to) return to;
    const refusedFrom = this.index.stores === undefined ? end : from;
    blocks.refuse(refusedFrom);
    return refusedFrom;
  }

  #release(sequence: Sequence): void {
    this.refs.release(sequence);
    if (this.#limits) this.entries.enforceLimits();
  }
}
