import type { KvCache } from "../cache/kv-cache.ts";
import { deletePrefix } from "../cache/operations.ts";
import { Request, Sequence, SequenceQueue } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type {
  AdmissionLimit,
  ReplicaView,
  RequestView,
  Scheduler,
  SchedulerContext,
  SequenceView,
} from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import { BatchesInFlight } from "./batches-in-flight.ts";
import { HostMemory } from "./host-memory.ts";
import { KvTransfers } from "./kv-transfers.ts";
import { PlanInputs } from "./plan-inputs.ts";
import type { ReplicaListener, ReplicaOptions } from "./replica-options.ts";
import { computesNow, stepsWithinBlocks } from "./running.ts";
import { StepPlan, type StepResult } from "./step.ts";
import { StepComposer } from "./step-composer.ts";

/** Above the length of any prompt; a small integer keeps the arithmetic of the hot path in integers. */
const unlimitedTokens = 2 ** 29;

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
  readonly #waiting = new SequenceQueue();
  readonly #plan: StepPlan;
  readonly #composer: StepComposer;
  readonly #host: HostMemory;
  readonly #transfers: KvTransfers;
  /** With pipeline parallelism. */
  readonly #batches: BatchesInFlight | undefined;
  #admissions = 0;
  readonly #inputs: PlanInputs;
  /** Sequences of finished requests, to be reused. */
  readonly #reusable: Sequence[] = [];
  /** For the lookup of a request that a router has not routed yet. */
  #routedSequence: Sequence | undefined;
  readonly #isPrefillOnly: boolean;
  /** The plan admitted a request whose KV must be transferred first. */
  #fetches = false;
  /** All running sequences were in the last step. */
  #allInStep = false;
  /** The limit that ended the admissions of the plan. */
  #limit: AdmissionLimit | undefined;
  /** Why requests wait after the last plan; undefined if none did. */
  waitsFor: AdmissionLimit | undefined;
  #now: Nanos = 0;

  constructor(options: ReplicaOptions) {
    const { cache, log, speculation } = options;
    this.cache = cache;
    this.cache.requests.connect(this.#waiting, () => this.#runningSequences());
    this.cache.lookup.isBeingComputed = (block) => this.running.some((sequence) => computesNow(sequence, block));
    this.#plan = new StepPlan(cache.copies);
    this.#composer = new StepComposer(this.#plan, cache, options.generation === "skip", speculation);
    this.#host = new HostMemory(options.hostBlocks ?? 0, cache.blockTokens, this.#plan, log);
    this.#transfers = new KvTransfers(cache, log);
    const { batchesInFlight = 1 } = options;
    this.#batches = batchesInFlight > 1 ? new BatchesInFlight(batchesInFlight, cache) : undefined;
    this.#inputs = new PlanInputs(cache.entries, options.scheduler.arrived !== undefined);
    this.#scheduler = options.scheduler;
    this.#log = log;
    this.#listener = options.listener ?? {};
    this.#isPrefillOnly = options.isPrefillOnly ?? false;
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
    this.cache.arrived(request, now);
    this.#waiting.append(sequence);
    this.#inputs.arrived();
    this.#scheduler.arrived?.(sequence, now);
    return sequence;
  }

  get speculates(): boolean {
    return this.#composer.speculation !== undefined;
  }

  /** Draft tokens verified and accepted so far, and the decodes that verified them. */
  get drafts(): StepComposer["drafts"] {
    return this.#composer.drafts;
  }

  /** Whether no request waits, runs or is in transfer. */
  get isIdle(): boolean {
    return this.#waiting.count === 0 && this.runningCount === 0 && this.#transfers.isIdle;
  }

  /** Running sequences, those in a batch in flight included. */
  *#runningSequences(): Iterable<Sequence> {
    yield* this.running;
    if (this.#batches) yield* this.#batches.sequences();
  }

  /** All sequences that reference blocks. */
  *referencing(): Iterable<Sequence> {
    yield* this.#runningSequences();
    yield* this.#transfers.sequences();
  }

  /** The next step; may be empty. The object is reused by the next call. */
  plan(now: Nanos): StepPlan {
    this.#now = now;
    this.cache.advanceTo(now);
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
    const sequence = this.#transfers.received(id, now);
    this.running.push(sequence);
    this.#inputs.changes = true;
    this.#resume(now);
  }

  /** The transfer of `tokens` tokens of the request to its decode replica begins. */
  sends(id: number, tokens: number, now: Nanos): void {
    this.#transfers.sends(id, tokens, now);
  }

  /** The decode replica has the KV of the request, or has refused it: its blocks are released. */
  release(id: number, now: Nanos): void {
    this.#now = now;
    this.#reusable.push(this.#transfers.release(id, now));
    this.#inputs.changes = true;
    this.#resume(now);
  }

  /** Deferred requests wait again, in their order. */
  #resume(now: Nanos): void {
    for (const sequence of this.#transfers.takeDeferred()) {
      this.#waiting.append(sequence);
      this.#inputs.arrived();
      this.#scheduler.arrived?.(sequence, now);
    }
  }

  /** With batches in flight: the step starts. Others may be planned before the returned plan is committed. */
  start(plan: StepPlan, now: Nanos): StepPlan {
    return this.#batches ? this.#batches.start(plan, this.running, now) : plan;
  }

  /** The step has run; with batches in flight, `plan` is the result of `start`. */
  commit(plan: StepPlan, result: StepResult, now: Nanos): void {
    this.#now = now;
    this.#log?.step(now, plan.count, plan.prefillTokens + plan.decodeTokens);
    this.#allInStep = plan.count === this.running.length;
    this.#batches?.end(plan, this.running);
    const { items } = plan;
    for (let i = 0; i < plan.count; i++) {
      const { sequence, prefill, generate } = items[i];
      if (generate === 0 && this.#batches !== undefined) continue;
      const { request, generatedTokens } = sequence;
      const generated = generatedTokens + generate;
      const done = generate > 0 && (result.finished ? result.finished[i] : generated >= request.outputTokens);
      if (sequence.draftTokens > 0) this.#composer.verify(sequence, generate, now);
      // A request that finishes with its prefill publishes its blocks when it finishes.
      this.cache.computed(sequence, prefill && !(done && generate === 1), now);
      if (generate === 0) continue;
      if (this.#composer.growsAfterPrefill) this.#composer.addOutput(sequence, generate - 1, now);
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
    if (this.#composer.speculation !== undefined || this.#batches !== undefined) return 0;
    // An entry may expire between two steps.
    if (cache.nextExpiry < Number.POSITIVE_INFINITY) return 0;
    const { count, decodeTokens, prefillTokens } = this.#plan;
    // If as many requests run as were in the step, none has finished.
    if (count === 0 || !this.#allInStep || count !== running.length) return 0;
    if (decodeTokens !== count || prefillTokens > 0) return 0;
    if (!this.#inputs.areUnchanged) return 0;
    return stepsWithinBlocks(running, cache);
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
  /** Running sequences, those in a batch in flight included. */
  get runningCount(): number {
    return this.running.length + this.inFlightCount;
  }
  get inFlightCount(): number {
    return this.#batches === undefined ? 0 : this.#batches.count;
  }
  get batchesInFlight(): number {
    return this.#batches?.most ?? 1;
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
    return this.#host.freeBlocks;
  }
  get hostBlocks(): number {
    return this.#host.blocks;
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
    sequence.admission = ++this.#admissions;
    this.#listener.admitted?.(sequence, this.#now);
    if (swapped > 0) this.#swapIn(sequence);
    // The swap restores more tokens than estimated above if this step computes the last cached block.
    const recomputed = this.cache.recomputesHits ? sequence.cachedTokens : 0;
    this.#composer.add(sequence, Math.max(0, tokens + restored - sequence.restoredTokens) + recomputed, this.#now);
    return true;
  }

  schedule(view: SequenceView, tokens = unlimitedTokens): boolean {
    const sequence = view as Sequence;
    assert(!sequence.inStep, "a sequence is scheduled twice in one step");
    if (tokens > 0 && this.#addDecode(sequence)) return true;
    const end = Math.min(sequence.knownTokens, sequence.computedTokens + tokens);
    if (!this.cache.extend(sequence, end, this.#now)) {
      this.#inputs.readCache();
      this.#limit = "blocks";
      return false;
    }
    this.#composer.add(sequence, tokens, this.#now);
    return true;
  }

  #addDecode(sequence: Sequence): boolean {
    const composer = this.#composer;
    const { speculation } = composer;
    return speculation === undefined
      ? composer.addOutputToken(sequence)
      : composer.addDrafts(sequence, speculation, this.#now);
  }

  preempt(view: SequenceView, how: "recompute" | "swap", place: "head" | "tail" = "head"): void {
    const sequence = view as Sequence;
    this.#inputs.changes = true;
    if (sequence.inStep) this.#removeFromStep(sequence);
    this.#removeRunning(sequence);
    const swapped = how === "swap" ? sequence.computedTokens : 0;
    if (swapped > 0) this.#listener.swappedOut?.(sequence, swapped);
    this.cache.preempt(sequence, this.#now);
    this.#host.swapOut(sequence, swapped, this.#now);
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
    if (sequence.inStep) this.#removeFromStep(sequence);
    const isRunning = this.running.includes(sequence);
    if (isRunning) this.#removeRunning(sequence);
    else this.#waiting.remove(sequence);
    if (this.#transfers.mustDefer(sequence)) {
      if (isRunning) this.cache.preempt(sequence, this.#now);
      this.#transfers.defer(sequence);
      return;
    }
    this.#host.free(sequence);
    this.cache.refuse(sequence, this.#now);
    this.#listener.refused?.(sequence, why, this.#now);
  }

  limitedBy(limit: AdmissionLimit): void {
    this.#limit = limit;
  }

  /**
   * Ends a request that its client has cancelled, between two steps: a running request with output tokens finishes with those, any
   * other one is refused. Its blocks are released. False if it neither waits nor runs here.
   */
  cancel(id: number, now: Nanos): boolean {
    this.#now = now;
    const runs = this.running.find(({ request }) => request.id === id);
    const sequence = runs ?? this.#waiting.find(id);
    if (sequence === undefined) return false;
    assert(!sequence.inStep, "a request is cancelled inside a step");
    if (runs && runs.generatedTokens > 0) {
      this.#inputs.changes = true;
      this.#finish(runs);
    } else {
      this.refuse(sequence, "cancelled");
      this.#scheduler.finished?.(sequence, now);
    }
    return true;
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
      this.#transfers.fetches(sequence);
      this.#fetches = true;
    } else {
      this.running.push(sequence);
      this.#composer.add(sequence, unlimitedTokens, this.#now);
    }
    return true;
  }

  /** The request has its first token and continues on another replica. */
  #handOver(sequence: Sequence): void {
    this.#removeRunning(sequence);
    this.#transfers.prefilled(sequence);
    this.#listener.prefilled?.(sequence, this.#now);
    this.#scheduler.finished?.(sequence, this.#now);
  }

  /** Swaps in the tokens that are in host memory and not cached. */
  #swapIn(sequence: Sequence): void {
    const restored = Math.max(0, sequence.swappedTokens - sequence.computedTokens);
    sequence.restoredTokens = restored;
    this.#listener.swappedIn?.(sequence, restored);
    this.#host.swapIn(sequence, this.#now);
  }

  /** Removes the sequence from the step, and preempts those that reference blocks that it computes there. */
  #removeFromStep(sequence: Sequence): void {
    const dependents = this.#composer.remove(sequence);
    // From the last to the first, so that they wait in order.
    for (let i = dependents.length - 1; i >= 0; i--) if (dependents[i].inStep) this.preempt(dependents[i], "recompute");
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
