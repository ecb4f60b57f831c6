import { hole } from "../cache/block-table.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import { deletePrefix } from "../cache/operations.ts";
import { blocksOf, Request, Sequence, SequenceQueue } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { BlockId, ReplicaView, RequestView, Scheduler, SchedulerContext, SequenceView } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import { PlanInputs } from "./plan-inputs.ts";
import { StepPlan, type StepResult } from "./step.ts";

/** More than any prompt has, and a small integer, which keeps the arithmetic of the hot path in integers. */
const unlimitedTokens = 2 ** 29;

/** Request lifecycle callbacks. */
export interface ReplicaListener {
  admitted?(sequence: Sequence, now: Nanos): void;
  firstToken?(sequence: Sequence, now: Nanos): void;
  /** Its computed tokens are to be copied to the host before its blocks, which it still references, are released. */
  swappedOut?(sequence: Sequence, tokens: number): void;
  /** So many tokens behind the cached ones are to be copied from the host before the step, into its present blocks. */
  swappedIn?(sequence: Sequence, tokens: number): void;
  finished?(sequence: Sequence, now: Nanos): void;
  refused?(sequence: Sequence, why: string, now: Nanos): void;
}

export interface ReplicaOptions {
  readonly cache: KvCache;
  readonly scheduler: Scheduler;
  readonly log?: EventLog | undefined;
  readonly listener?: ReplicaListener;
  /**
   * `step`: one output token per step, with blocks allocated as needed. `skip`: a request finishes with the step that
   * computes its prompt; output tokens have blocks only if the rules cache them. The clock-free replay skips: it counts
   * prompts.
   */
  readonly generation: "step" | "skip";
  /** Blocks of host memory for sequences that are swapped out; 0 by default. */
  readonly hostBlocks?: number;
}

/**
 * One model instance: queues, cache, scheduler. It has no clock, no file and no GPU, so that replay, simulator and
 * engine run the same code: `submit` requests, `plan` a step, run it, `commit` it.
 */
export class Replica implements SchedulerContext, ReplicaView {
  readonly cache: KvCache;
  readonly running: Sequence[] = [];
  readonly #scheduler: Scheduler;
  readonly #log: EventLog | undefined;
  readonly #listener: ReplicaListener;
  readonly #skip: boolean;
  readonly #waiting = new SequenceQueue();
  readonly #plan: StepPlan;
  readonly #inputs: PlanInputs;
  /** Sequences of finished requests, to be reused. */
  readonly #done: Sequence[] = [];
  /** Stands for the request that a router looks up. */
  #lookedUp: Sequence | undefined;
  readonly hostBlocks: number;
  #usedHostBlocks = 0;
  /** All running sequences were in the last step. */
  #allInStep = false;
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
    this.hostBlocks = options.hostBlocks ?? 0;
  }

  /** Appends a request to the waiting queue. */
  submit(request: Request, now: Nanos): Sequence {
    // The one that finished first, so that no object references an old request, and its whole trace, for long.
    const sequence = this.#done.shift() ?? new Sequence(request);
    sequence.reset(request);
    this.cache.expectKeys(request.blocks.distinct);
    this.#waiting.append(sequence);
    this.#inputs.arrived();
    this.#scheduler.arrived?.(sequence, now);
    return sequence;
  }

  /** Whether no request waits or runs. */
  get isIdle(): boolean {
    return this.#waiting.count === 0 && this.running.length === 0;
  }

  /** The next step; may be empty. The object is reused by the next call. */
  plan(now: Nanos): StepPlan {
    this.#now = now;
    this.#plan.clear();
    this.#inputs.clear();
    this.#inputs.validity = this.#scheduler.plan(this) ?? undefined;
    return this.#plan;
  }

  /** The step has run. */
  commit(plan: StepPlan, result: StepResult, now: Nanos): void {
    this.#now = now;
    this.#log?.step(now, plan.count, plan.prefillTokens + plan.decodeTokens);
    this.#allInStep = plan.count === this.running.length;
    const { items } = plan;
    for (let i = 0; i < plan.count; i++) {
      const { sequence, prefill, generate } = items[i];
      this.cache.computed(sequence, prefill, now);
      if (generate === 0) continue;
      if (sequence.generatedTokens === 0) this.#listener.firstToken?.(sequence, now);
      sequence.generatedTokens += generate;
      const { request } = sequence;
      const done = result.finished ? result.finished[i] : sequence.generatedTokens >= request.outputTokens;
      if (done) this.#finish(sequence);
    }
  }

  /**
   * How many steps can follow without a plan, by the validity of the last one: one token for each running request, no
   * block to allocate or publish. `repeat` runs them at once. To be called after `commit`; 0 = plan the next step.
   */
  repeatableSteps(): number {
    const { running, cache } = this;
    const { count, decodeTokens, prefillTokens } = this.#plan;
    // No request has finished: as many run as were in the step.
    if (count === 0 || !this.#allInStep || count !== running.length) return 0;
    if (decodeTokens !== count || prefillTokens > 0) return 0;
    if (!this.#inputs.areUnchanged) return 0;
    let steps = unlimitedTokens;
    for (const { request, computedTokens, generatedTokens, blocks } of running) {
      if (blocks.copyAt !== hole) return 0;
      // A step is planned if it finishes a request, begins a block or fills one.
      const left = request.outputTokens - generatedTokens - 1;
      const filled = computedTokens % cache.blockTokens;
      const room = filled === 0 ? 0 : cache.blockTokens - 1 - filled;
      if (left < steps) steps = left;
      if (room < steps) steps = room;
      if (steps <= 0) return 0;
    }
    return steps;
  }

  /** That many of these steps have run; `endsNs[0 .. steps)` are their end times. */
  repeat(steps: number, endsNs: Float64Array): void {
    const { running } = this;
    for (let i = 0; i < steps; i++) this.#log?.step(endsNs[i], running.length, running.length);
    for (const sequence of running) {
      sequence.computedTokens += steps;
      sequence.generatedTokens += steps;
    }
    this.#scheduler.repeated?.(steps);
  }

  /**
   * The step did not run (interrupted, out of memory): its blocks are dropped from the index, and its sequences return to
   * the head of the waiting queue, in their order.
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

  // What a scheduler and a router see.

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
    this.#lookedUp ??= new Sequence(of as Request);
    this.#lookedUp.reset(of as Request);
    return this.cache.cachedTokens(this.#lookedUp);
  }

  // What a scheduler can do.

  admit(view: SequenceView, tokens = unlimitedTokens, spareBlocks = 0): boolean {
    const sequence = view as Sequence;
    this.#inputs.readCache();
    const swapped = sequence.swappedTokens;
    // Tokens that are still cached need not be swapped in.
    const back = swapped === 0 ? 0 : Math.max(0, swapped - this.cache.cachedTokens(sequence));
    if (!this.cache.admit(sequence, tokens + back, this.#now, spareBlocks)) return false;
    this.#inputs.changes = true;
    this.#waiting.remove(sequence);
    this.running.push(sequence);
    this.#listener.admitted?.(sequence, this.#now);
    if (swapped > 0) this.#swapIn(sequence);
    // More is swapped in where the last cached block is one that this step computes.
    this.#addToStep(sequence, Math.max(0, tokens + back - sequence.restoredTokens));
    return true;
  }

  schedule(view: SequenceView, tokens = unlimitedTokens): boolean {
    const sequence = view as Sequence;
    assert(!sequence.inStep, "a sequence is scheduled twice in one step");
    if (tokens > 0 && this.#addOutputToken(sequence)) return true;
    const end = Math.min(sequence.knownTokens, sequence.computedTokens + tokens);
    if (!this.cache.extend(sequence, end, this.#now)) {
      this.#inputs.readCache();
      return false;
    }
    this.#addToStep(sequence, tokens);
    return true;
  }

  preempt(view: SequenceView, how: "recompute" | "swap", place: "head" | "tail" = "head"): void {
    const sequence = view as Sequence;
    this.#inputs.changes = true;
    if (sequence.inStep) this.#removeFromStep(sequence);
    this.#stopRunning(sequence);
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
    if (sequence.inStep) this.#removeFromStep(sequence);
    if (this.running.includes(sequence)) this.#stopRunning(sequence);
    else this.#waiting.remove(sequence);
    this.#freeHost(sequence);
    this.cache.refuse(sequence, this.#now);
    this.#listener.refused?.(sequence, why, this.#now);
  }

  /** Its computed tokens are on the host. */
  #swapOut(sequence: Sequence, tokens: number): void {
    if (tokens === 0) return;
    const blocks = blocksOf(tokens, this.blockTokens);
    assert(blocks <= this.freeHostBlocks, `${blocks} blocks to swap out, ${this.freeHostBlocks} free on the host`);
    this.#usedHostBlocks += blocks;
    sequence.swappedTokens = tokens;
    this.#plan.swappedTokens += tokens;
    this.#log?.swapOut(this.#now, sequence.request.id, tokens, blocks);
  }

  /** Tokens that are on the host and not cached are copied back before the step. */
  #swapIn(sequence: Sequence): void {
    const back = Math.max(0, sequence.swappedTokens - sequence.computedTokens);
    sequence.restoredTokens = back;
    this.#listener.swappedIn?.(sequence, back);
    this.#plan.swappedTokens += back;
    this.#log?.swapIn(this.#now, sequence.request.id, back, blocksOf(back, this.blockTokens));
    this.#freeHost(sequence);
  }

  #freeHost(sequence: Sequence): void {
    this.#usedHostBlocks -= blocksOf(sequence.swappedTokens, this.blockTokens);
    sequence.swappedTokens = 0;
  }

  /**
   * Short path for an output token that neither begins nor fills a block: no block is allocated or published. Returns
   * whether it was taken.
   */
  #addOutputToken(sequence: Sequence): boolean {
    const { computedTokens, generatedTokens, request } = sequence;
    const { blockTokens } = this.cache;
    const filled = computedTokens % blockTokens;
    if (filled === 0 || filled + 1 === blockTokens || generatedTokens === 0 || this.#skip) return false;
    if (computedTokens + 1 !== request.inputTokens + generatedTokens || sequence.blocks.copyAt !== hole) return false;
    sequence.stepTokens = 1;
    sequence.inStep = true;
    this.#plan.add(sequence, computedTokens, 1, false, 1);
    return true;
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
      if (cache.rules["cache-generated"] === "true" && cache.extend(sequence, known + generate - 1, this.#now)) {
        tokens += generate - 1;
      }
    }
    sequence.stepTokens = restoredTokens + tokens;
    sequence.restoredTokens = 0;
    sequence.inStep = true;
    cache.scheduled(sequence, this.#now);
    this.#plan.add(sequence, from, tokens, prefill, generate);
  }

  /** Removes the sequence from the step, and preempts those that reference blocks that it computes there. */
  #removeFromStep(sequence: Sequence): void {
    this.#plan.remove(sequence);
    const { items, count } = this.#plan;
    const dependents = items.slice(0, count).map((item) => item.sequence);
    const cut = dependents.filter((other) => this.cache.dependsOn(other, sequence));
    // From the last to the first, so that they wait in order.
    for (const other of cut.reverse()) if (other.inStep) this.preempt(other, "recompute");
    this.cache.cancelled(sequence, this.#now);
  }

  #finish(sequence: Sequence): void {
    this.#stopRunning(sequence);
    this.cache.finish(sequence, this.#now);
    this.#listener.finished?.(sequence, this.#now);
    this.#scheduler.finished?.(sequence, this.#now);
    this.#done.push(sequence);
  }

  #stopRunning(sequence: Sequence): void {
    const { running } = this;
    if (running[running.length - 1] === sequence) {
      running.pop();
      return;
    }
    const at = running.indexOf(sequence);
    assert(at >= 0, "a sequence stops that is not running");
    running.splice(at, 1);
  }
}

/** Whether the step that is being planned computes the known content of the block, and not only output tokens behind it. */
function computesNow(sequence: Sequence, block: BlockId): boolean {
  const { inStep, blocks, computedBlocks } = sequence;
  if (!inStep) return false;
  const at = blocks.blocks.subarray(0, blocks.computingEnd).indexOf(block, computedBlocks);
  // A shared block is computed by another sequence, or is already.
  return at >= 0 && !blocks.isShared(at);
}
