import { hole } from "../cache/block-table.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import { deletePrefix } from "../cache/operations.ts";
import { blocksOf, Request, Sequence, SequenceQueue } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type {
  AdmissionLimit,
  BlockId,
  ReplicaView,
  RequestView,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import { PlanInputs } from "./plan-inputs.ts";
import { acceptedTokens, type Speculation } from "./speculation.ts";
import { StepPlan, type StepResult } from "./step.ts";

/** Above the length of any prompt; a small integer keeps the arithmetic of the hot path in integers. */
const unlimitedTokens = 2 ** 29;

/** Request lifecycle callbacks. */
export interface ReplicaListener {
  admitted?(sequence: Sequence, now: Nanos): void;
  firstToken?(sequence: Sequence, now: Nanos): void;
  /** Its first `tokens` tokens must be copied to host memory now: its blocks are released after this call. */
  swappedOut?(sequence: Sequence, tokens: number): void;
  /** The `tokens` tokens after the cached ones must be copied from host memory to its blocks before the step runs. */
  swappedIn?(sequence: Sequence, tokens: number): void;
  finished?(sequence: Sequence, now: Nanos): void;
  refused?(sequence: Sequence, why: string, now: Nanos): void;
  /** Prefill only: the first token is generated, and others are to follow on another replica. */
  prefilled?(sequence: Sequence, now: Nanos): void;
  /** Blocks are allocated for a request whose prompt was computed elsewhere; `tokens` of it are not cached here. */
  fetches?(sequence: Sequence, tokens: number, now: Nanos): void;
}

export interface ReplicaOptions {
  readonly cache: KvCache;
  readonly scheduler: Scheduler;
  readonly log?: EventLog | undefined;
  readonly listener?: ReplicaListener;
  /**
   * `step`: one output token per step, with blocks allocated as needed. `skip`: a request finishes with the step that
   * computes its prompt; output tokens have blocks only if the rules cache them. Used by the clock-free replay, which counts
   * prompts.
   */
  readonly generation: "step" | "skip";
  /** Blocks of host memory for sequences that are swapped out; 0 by default. */
  readonly hostBlocks?: number;
  /**
   * Requests leave after their first token. Their blocks stay referenced until `release`, so that another replica can read them.
   */
  readonly isPrefillOnly?: boolean;
  /** Decodes verify draft tokens; absent: one token per decode. */
  readonly speculation?: Speculation | undefined;
}

/**
 * One model instance: queues, cache, scheduler. It uses no clock, file or GPU, so that replay, simulator and engine run the
 * same code: `submit` requests, `plan` a step, run it, `commit` it.
 */
export class Replica implements SchedulerContext, ReplicaView {
  readonly cache: KvCache;
  readonly running: Sequence[] = [];
  readonly #scheduler: Scheduler;
  readonly #log: EventLog | undefined;
  readonly #listener: ReplicaListener;
  readonly #skip: boolean;
  /** With `generation: "skip"` and `evict-amount=needed`: blocks for an output are allocated after the prompt is published. */
  readonly #growsAfterPrefill: boolean;
  readonly #waiting = new SequenceQueue();
  readonly #plan: StepPlan;
  readonly #inputs: PlanInputs;
  /** Sequences of finished requests, to be reused. */
  readonly #reusable: Sequence[] = [];
  /** For the lookup of a request that a router has not routed yet. */
  #routedSequence: Sequence | undefined;
  readonly hostBlocks: number;
  readonly #isPrefillOnly: boolean;
  readonly #speculation: Speculation | undefined;
  /** Draft tokens verified and accepted so far, and the decodes that verified them. */
  readonly drafts = { tokens: 0, accepted: 0, decodes: 0 };
  /** Requests, by id, whose first token was generated here and whose blocks another replica has not read yet. */
  readonly #sending = new Map<number, Sequence>();
  /** Requests, by id, that have blocks for KV that is being transferred from another replica. */
  readonly #receiving = new Map<number, Sequence>();
  /** Requests that did not fit beside those in transfer; they wait again when a transfer ends. */
  readonly #deferred: Sequence[] = [];
  /** The plan admitted a request whose KV must be transferred first. */
  #fetches = false;
  #usedHostBlocks = 0;
  /** All running sequences were in the last step. */
  #allInStep = false;
  /** The limit that ended the admissions of the plan. */
  #limit: AdmissionLimit | undefined;
  /** Why requests wait after the last plan; undefined if none did. */
  waitsFor: AdmissionLimit | undefined;
  #now: Nanos = 0;

  constructor(options: ReplicaOptions) {
    this.cache = options.cache;
    this.cache.lookup.isBeingComputed = (block) => this.running.some((sequence) => computesNow(sequence, block));
    this.#plan = new StepPlan(options.cache.copies);
    this.#inputs = new PlanInputs(options.cache.entries, options.scheduler.arrived !== undefined);
    this.#scheduler = options.scheduler;
    this.#log = options.log;
    this.#listener = options.listener ?? {};
    this.#skip = options.generation === "skip";
    this.#growsAfterPrefill = this.#skip && options.cache.rules["evict-amount"] === "needed";
    this.hostBlocks = options.hostBlocks ?? 0;
    this.#isPrefillOnly = options.isPrefillOnly ?? false;
    this.#speculation = options.speculation;
  }

  /** Appends a request to the waiting queue; `isPrefilled`: another replica computed its prompt and first token. */
  submit(request: Request, now: Nanos, isPrefilled = false): Sequence {
    // The one that finished first: an object that is not reused would keep its old request and the whole trace in memory.
    const sequence = this.#reusable.shift() ?? new Sequence(request);
    sequence.reset(request);
    if (isPrefilled) {
      sequence.generatedTokens = 1;
      sequence.remoteTokens = request.inputTokens;
    }
    this.cache.expectKeys(request.blocks.distinct);
    this.#waiting.append(sequence);
    this.#inputs.arrived();
    this.#scheduler.arrived?.(sequence, now);
    return sequence;
  }

  get speculates(): boolean {
    return this.#speculation !== undefined;
  }

  /** Whether no request waits, runs or is in transfer. */
  get isIdle(): boolean {
    return this.#waiting.count === 0 && this.running.length === 0 && this.#inTransfer + this.#deferred.length === 0;
  }

  get #inTransfer(): number {
    return this.#sending.size + this.#receiving.size;
  }

  /** All sequences that reference blocks. */
  *referencing(): Iterable<Sequence> {
    yield* this.running;
    yield* this.#sending.values();
    yield* this.#receiving.values();
  }

  /** The next step; may be empty. The object is reused by the next call. */
  plan(now: Nanos): StepPlan {
    this.#now = now;
    this.#plan.clear();
    this.#inputs.clear();
    do {
      this.#fetches = false;
      this.#limit = undefined;
      this.#inputs.planned(this.#scheduler.plan(this) ?? undefined);
      // A scheduler that gives prefill priority returns after these admissions, which compute nothing.
    } while (this.#fetches && this.#plan.isEmpty && this.running.length > 0);
    this.#readLimit();
    return this.#plan;
  }

  #readLimit(): void {
    this.waitsFor = this.#waiting.count === 0 ? undefined : (this.#limit ?? "scheduler");
  }

  /** The KV of the request has arrived from its prefill replica: it runs from now on. */
  received(id: number, now: Nanos): void {
    this.#now = now;
    const sequence = this.#receiving.get(id);
    assert(sequence !== undefined, "KV arrives for a request that has no blocks for it");
    this.#receiving.delete(id);
    const tokens = sequence.request.inputTokens - sequence.computedTokens;
    this.#log?.receive(now, id, tokens, blocksOf(tokens, this.blockTokens));
    sequence.stepTokens = tokens;
    sequence.blocks.endCopy();
    this.cache.scheduled(sequence, now);
    this.cache.computed(sequence, true, now);
    this.running.push(sequence);
    this.#inputs.changes = true;
    this.#resume(now);
  }

  /** The transfer of `tokens` tokens of the request to its decode replica begins. */
  sends(id: number, tokens: number, now: Nanos): void {
    assert(this.#sending.has(id), "a transfer begins from a replica that has not computed the prompt");
    this.#log?.send(now, id, tokens, blocksOf(tokens, this.blockTokens));
  }

  /** The decode replica has the KV of the request, or has refused it: its blocks are released. */
  release(id: number, now: Nanos): void {
    this.#now = now;
    const sequence = this.#sending.get(id);
    assert(sequence !== undefined, "a request is released that has not been computed");
    this.#sending.delete(id);
    this.cache.finish(sequence, now);
    this.#reusable.push(sequence);
    this.#inputs.changes = true;
    this.#resume(now);
  }

  /** Deferred requests wait again, in their order. */
  #resume(now: Nanos): void {
    for (const sequence of this.#deferred.splice(0)) {
      this.#waiting.append(sequence);
      this.#inputs.arrived();
      this.#scheduler.arrived?.(sequence, now);
    }
  }

  /** The step has run. */
  commit(plan: StepPlan, result: StepResult, now: Nanos): void {
    this.#now = now;
    this.#log?.step(now, plan.count, plan.prefillTokens + plan.decodeTokens);
    this.#allInStep = plan.count === this.running.length;
    const { items } = plan;
    for (let i = 0; i < plan.count; i++) {
      const { sequence, prefill, generate } = items[i];
      const { request, generatedTokens } = sequence;
      const generated = generatedTokens + generate;
      const done = generate > 0 && (result.finished ? result.finished[i] : generated >= request.outputTokens);
      if (sequence.draftTokens > 0) this.#verify(sequence, generate);
      // A request that finishes with its prefill publishes its blocks when it finishes.
      this.cache.computed(sequence, prefill && !(done && generate === 1), now);
      if (generate === 0) continue;
      if (this.#growsAfterPrefill) this.#addOutput(sequence, generate - 1);
      if (generatedTokens === 0) this.#listener.firstToken?.(sequence, now);
      sequence.generatedTokens = generated;
      if (done) this.#finish(sequence);
      else if (this.#isPrefillOnly) this.#handOver(sequence);
    }
  }

  /**
   * Number of steps that can follow without a new plan, by the validity of the last one: each computes one token of every
   * running request and neither allocates nor publishes a block. `repeat` commits them at once. Called after `commit`; 0 = plan
   * the next step.
   */
  repeatableSteps(): number {
    const { running, cache } = this;
    if (this.#speculation !== undefined) return 0;
    const { count, decodeTokens, prefillTokens } = this.#plan;
    // If as many requests run as were in the step, none has finished.
    if (count === 0 || !this.#allInStep || count !== running.length) return 0;
    if (decodeTokens !== count || prefillTokens > 0) return 0;
    if (!this.#inputs.areUnchanged) return 0;
    let steps = unlimitedTokens;
    for (const { request, computedTokens, generatedTokens, blocks } of running) {
      if (cache.usesCopyOnWrite && blocks.copyAt !== hole) return 0;
      // A step is planned if it finishes a request, begins a block or fills one.
      const remaining = request.outputTokens - generatedTokens - 1;
      const filled = computedTokens % cache.blockTokens;
      const freeSlots = filled === 0 ? 0 : cache.blockTokens - 1 - filled;
      if (remaining < steps) steps = remaining;
      if (freeSlots < steps) steps = freeSlots;
      if (steps <= 0) return 0;
    }
    return steps;
  }

  /** Commits `steps` repetitions of the last step; `endsNs[0 .. steps)` are their end times. */
  repeat(steps: number, endsNs: Float64Array): void {
    const { running } = this;
    if (this.#log) for (let i = 0; i < steps; i++) this.#log.step(endsNs[i], running.length, running.length);
    for (const sequence of running) {
      sequence.computedTokens += steps;
      sequence.generatedTokens += steps;
    }
    this.#scheduler.repeated?.(steps);
    this.#readLimit();
  }

  /**
   * Rolls back a step that did not run (interrupted, out of memory): its blocks are dropped from the index, and its sequences
   * return to the head of the waiting queue, in their order.
   */
  rollback(plan: StepPlan, now: Nanos): void {
    this.#now = now;
    // From the last to the first: later sequences may reference blocks of earlier ones.
    const sequences = plan.items.slice(0, plan.count).map((item) => item.sequence);
    sequences.reverse();
    for (const sequence of sequences) this.cache.cancelled(sequence, now);
    plan.clear();
    for (const sequence of sequences) this.preempt(sequence, "recompute");
  }

  // State for schedulers and routers.

  get now(): Nanos {
    this.#inputs.readsClock = true;
    return this.#now;
  }
  get firstWaiting(): Sequence | undefined {
    this.#inputs.readsQueue = true;
    return this.#waiting.first;
  }
  get waitingCount(): number {
    this.#inputs.readsQueue = true;
    return this.#waiting.count;
  }
  get runningCount(): number {
    return this.running.length;
  }
  get waitingTokens(): number {
    return this.#waiting.tokens;
  }
  get blockTokens(): number {
    return this.cache.blockTokens;
  }
  get totalBlocks(): number | undefined {
    return this.cache.totalBlocks;
  }
  get availableBlocks(): number {
    this.#inputs.readCache();
    return this.cache.availableBlocks;
  }
  get referencedBlocks(): number {
    this.#inputs.readCache();
    return this.cache.referencedBlocks;
  }
  /** Changes only with admissions, preemptions and refusals, after which a plan is not valid any more. */
  get freeHostBlocks(): number {
    return this.hostBlocks - this.#usedHostBlocks;
  }

  cachedTokens(of: SequenceView | RequestView): number {
    this.#inputs.readCache();
    if (of instanceof Sequence) return this.cache.cachedTokens(of);
    this.#routedSequence ??= new Sequence(of as Request);
    this.#routedSequence.reset(of as Request);
    return this.cache.cachedTokens(this.#routedSequence);
  }

  // Actions of schedulers.

  admit(view: SequenceView, tokens = unlimitedTokens, spareBlocks = 0): boolean {
    const sequence = view as Sequence;
    this.#inputs.readCache();
    if (sequence.remoteTokens > 0) return this.#admitPrefilled(sequence, spareBlocks);
    const swapped = sequence.swappedTokens;
    // Tokens that are still cached need not be swapped in.
    const restored = swapped === 0 ? 0 : Math.max(0, swapped - this.cache.cachedTokens(sequence));
    if (!this.cache.admit(sequence, tokens + restored, this.#now, spareBlocks)) {
      this.#limit = "blocks";
      return false;
    }
    this.#inputs.changes = true;
    this.#waiting.remove(sequence);
    this.running.push(sequence);
    this.#listener.admitted?.(sequence, this.#now);
    if (swapped > 0) this.#swapIn(sequence);
    // `#swapIn` restores more tokens than estimated above if this step computes the last cached block.
    const recomputed = this.cache.recomputesHits ? sequence.cachedTokens : 0;
    this.#addToStep(sequence, Math.max(0, tokens + restored - sequence.restoredTokens) + recomputed);
    return true;
  }

  schedule(view: SequenceView, tokens = unlimitedTokens): boolean {
    const sequence = view as Sequence;
    assert(!sequence.inStep, "a sequence is scheduled twice in one step");
    if (this.#speculation !== undefined && tokens > 0) {
      if (this.#addDrafts(sequence)) return true;
    } else if (tokens > 0 && this.#addOutputToken(sequence)) return true;
    const end = Math.min(sequence.knownTokens, sequence.computedTokens + tokens);
    if (!this.cache.extend(sequence, end, this.#now)) {
      this.#inputs.readCache();
      this.#limit = "blocks";
      return false;
    }
    this.#addToStep(sequence, tokens);
    return true;
  }

  preempt(view: SequenceView, how: "recompute" | "swap", place: "head" | "tail" = "head"): void {
    const sequence = view as Sequence;
    this.#inputs.changes = true;
    if (sequence.inStep) this.#removeFromStep(sequence);
    this.#removeRunning(sequence);
    const swapped = how === "swap" ? sequence.computedTokens : 0;
    if (swapped > 0) this.#listener.swappedOut?.(sequence, swapped);
    this.cache.preempt(sequence, this.#now);
    this.#swapOut(sequence, swapped);
    if (place === "head") this.#waiting.prepend(sequence);
    else this.#waiting.append(sequence);
  }

  deletePrefix(request: RequestView): void {
    this.#inputs.changes = true;
    const { blocks, trace, row, id } = request as Request;
    const marked = Math.floor(request.markedTokens / this.blockTokens);
    if (marked === 0) return;
    const prefix = new Request(id, trace, row, blocks);
    prefix.promptBlocks = prefix.inputBlocks = prefix.knownBlocks = marked;
    prefix.inputTokens = marked * this.blockTokens;
    deletePrefix(this.cache, new Sequence(prefix), this.#now);
  }

  refuse(view: SequenceView, why: string): void {
    const sequence = view as Sequence;
    this.#inputs.changes = true;
    if (this.#inTransfer > 0 && this.#fits(sequence)) {
      this.#defer(sequence);
      return;
    }
    if (sequence.inStep) this.#removeFromStep(sequence);
    if (this.running.includes(sequence)) this.#removeRunning(sequence);
    else this.#waiting.remove(sequence);
    this.#freeHost(sequence);
    this.cache.refuse(sequence, this.#now);
    this.#listener.refused?.(sequence, why, this.#now);
  }

  limitedBy(limit: AdmissionLimit): void {
    this.#limit = limit;
  }

  /**
   * Admits a request whose prompt another replica has computed: the cached prefix is referenced, and blocks are allocated for the
   * rest, which is transferred before the request runs. The blocks are not published before.
   */
  #admitPrefilled(sequence: Sequence, spareBlocks: number): boolean {
    if (!this.cache.admit(sequence, unlimitedTokens, this.#now, spareBlocks)) return false;
    this.#inputs.changes = true;
    this.#waiting.remove(sequence);
    const tokens = Math.max(0, sequence.remoteTokens - sequence.computedTokens);
    sequence.remoteTokens = 0;
    this.#listener.admitted?.(sequence, this.#now);
    this.#listener.fetches?.(sequence, tokens, this.#now);
    if (tokens > 0) {
      this.#receiving.set(sequence.request.id, sequence);
      this.#fetches = true;
    } else {
      this.running.push(sequence);
      this.#addToStep(sequence, unlimitedTokens);
    }
    return true;
  }

  /** Whether an empty cache has enough blocks for the sequence. */
  #fits(sequence: Sequence): boolean {
    const { totalBlocks, lookup } = this.cache;
    return (
      totalBlocks === undefined ||
      sequence.blocksUpTo(lookup.reservedTokens(sequence, sequence.knownTokens)) <= totalBlocks
    );
  }

  /**
   * Schedulers refuse a request that does not fit although none runs. Requests in transfer do not run and reference blocks: the
   * request waits again when one of them has left.
   */
  #defer(sequence: Sequence): void {
    if (this.running.includes(sequence)) {
      if (sequence.inStep) this.#removeFromStep(sequence);
      this.#removeRunning(sequence);
      this.cache.preempt(sequence, this.#now);
    } else {
      this.#waiting.remove(sequence);
    }
    this.#deferred.push(sequence);
  }

  /** The request has its first token and continues on another replica. */
  #handOver(sequence: Sequence): void {
    this.#removeRunning(sequence);
    this.#sending.set(sequence.request.id, sequence);
    this.#listener.prefilled?.(sequence, this.#now);
    this.#scheduler.finished?.(sequence, this.#now);
  }

  /** Records that the computed tokens of the sequence are in host memory. */
  #swapOut(sequence: Sequence, tokens: number): void {
    if (tokens === 0) return;
    const blocks = blocksOf(tokens, this.blockTokens);
    assert(blocks <= this.freeHostBlocks, `${blocks} blocks to swap out, ${this.freeHostBlocks} free in host memory`);
    this.#usedHostBlocks += blocks;
    sequence.swappedTokens = tokens;
    this.#plan.swappedTokens += tokens;
    this.#log?.swapOut(this.#now, sequence.request.id, tokens, blocks);
  }

  /** Swaps in the tokens that are in host memory and not cached. */
  #swapIn(sequence: Sequence): void {
    const restored = Math.max(0, sequence.swappedTokens - sequence.computedTokens);
    sequence.restoredTokens = restored;
    this.#listener.swappedIn?.(sequence, restored);
    this.#plan.swappedTokens += restored;
    this.#log?.swapIn(this.#now, sequence.request.id, restored, blocksOf(restored, this.blockTokens));
    this.#freeHost(sequence);
  }

  #freeHost(sequence: Sequence): void {
    this.#usedHostBlocks -= blocksOf(sequence.swappedTokens, this.blockTokens);
    sequence.swappedTokens = 0;
  }

  /**
   * Fast path for an output token that neither begins nor fills a block, so that no block is allocated or published. Returns
   * false if the token is of another kind; nothing has changed then.
   */
  #addOutputToken(sequence: Sequence): boolean {
    const { computedTokens, generatedTokens, request } = sequence;
    const { blockTokens, usesCopyOnWrite } = this.cache;
    const filled = computedTokens % blockTokens;
    if (filled === 0 || filled + 1 === blockTokens || generatedTokens === 0 || this.#skip) return false;
    if (computedTokens + 1 !== request.inputTokens + generatedTokens) return false;
    if (usesCopyOnWrite && sequence.blocks.copyAt !== hole) return false;
    sequence.stepTokens = 1;
    sequence.inStep = true;
    this.#plan.add(sequence, computedTokens, 1, false, 1);
    return true;
  }

  /**
   * Adds a decode with draft tokens to the step. Returns false if the sequence does not decode, if it may generate only one more
   * token, or if there are too few blocks for the drafts.
   */
  #addDrafts(sequence: Sequence): boolean {
    const { request, computedTokens, generatedTokens, knownTokens } = sequence;
    if (generatedTokens === 0 || computedTokens + 1 !== knownTokens) return false;
    const speculation = this.#speculation!;
    const drafts = Math.min(speculation.tokens, request.maxOutputTokens - generatedTokens - 1);
    if (drafts <= 0 || !this.cache.extend(sequence, knownTokens + drafts, this.#now)) return false;
    const accepted = acceptedTokens(speculation, request.id, generatedTokens, drafts);
    sequence.stepTokens = 1;
    sequence.draftTokens = drafts;
    sequence.inStep = true;
    this.cache.scheduled(sequence, this.#now);
    const generate = Math.min(accepted + 1, Math.max(1, request.outputTokens - generatedTokens));
    this.#plan.add(sequence, computedTokens, 1 + drafts, false, generate);
    return true;
  }

  /** The step has verified the draft tokens of the sequence: `generate` tokens are kept, the last of them without KV. */
  #verify(sequence: Sequence, generate: number): void {
    this.drafts.tokens += sequence.draftTokens;
    this.drafts.accepted += generate - 1;
    this.drafts.decodes++;
    sequence.stepTokens = generate;
    this.cache.verified(sequence, this.#now);
  }

  #addToStep(sequence: Sequence, limit: number): void {
    const { cache } = this;
    const { restoredTokens } = sequence;
    const from = sequence.computedTokens + restoredTokens;
    const known = sequence.knownTokens;
    const prefill = from < known - 1 || sequence.generatedTokens === 0;
    let tokens = Math.min(limit, known - from);
    let generate = from + tokens === known ? 1 : 0;
    if (generate > 0 && this.#skip) {
      generate = Math.max(1, sequence.request.outputTokens);
      if (!this.#growsAfterPrefill && this.#extendOutput(sequence, generate - 1)) tokens += generate - 1;
    }
    sequence.stepTokens = restoredTokens + tokens;
    sequence.restoredTokens = 0;
    sequence.inStep = true;
    cache.scheduled(sequence, this.#now);
    this.#plan.add(sequence, from, tokens, prefill, generate);
  }

  /** Allocates blocks for the KV of `count` output tokens if the rules cache it; false if there are too few. */
  #extendOutput(sequence: Sequence, count: number): boolean {
    const { cache } = this;
    return (
      cache.rules["cache-generated"] === "true" && cache.extend(sequence, sequence.knownTokens + count, this.#now, true)
    );
  }

  /** Computes `count` output tokens of a sequence whose prompt has been computed. */
  #addOutput(sequence: Sequence, count: number): void {
    if (count === 0 || !this.#extendOutput(sequence, count)) return;
    sequence.stepTokens = count;
    this.cache.scheduled(sequence, this.#now);
    this.cache.computed(sequence, false, this.#now);
  }

  /** Removes the sequence from the step, and preempts those that reference blocks that it computes there. */
  #removeFromStep(sequence: Sequence): void {
    this.#plan.remove(sequence);
    const { items, count } = this.#plan;
    const others = items.slice(0, count).map((item) => item.sequence);
    const dependents = others.filter((other) => this.cache.dependsOn(other, sequence));
    // From the last to the first, so that they wait in order.
    for (const other of dependents.reverse()) if (other.inStep) this.preempt(other, "recompute");
    this.cache.cancelled(sequence, this.#now);
  }

  #finish(sequence: Sequence): void {
    this.#removeRunning(sequence);
    this.cache.finish(sequence, this.#now);
    this.#listener.finished?.(sequence, this.#now);
    this.#scheduler.finished?.(sequence, this.#now);
    this.#reusable.push(sequence);
  }

  #removeRunning(sequence: Sequence): void {
    const { running } = this;
    if (running[running.length - 1] === sequence) {
      running.pop();
      return;
    }
    const at = running.indexOf(sequence);
    assert(at >= 0, "a sequence is removed that is not running");
    running.splice(at, 1);
  }
}

/** Whether the step that is being planned computes the known content of the block, and not only output tokens behind it. */
function computesNow(sequence: Sequence, block: BlockId): boolean {
  const { inStep, blocks, computedBlocks } = sequence;
  if (!inStep) return false;
  const at = blocks.blocks.subarray(0, blocks.computingEnd).indexOf(block, computedBlocks);
  // Another sequence computes a shared block, or has computed it.
  return at >= 0 && !blocks.isShared(at);
}
