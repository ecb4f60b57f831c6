import { assert } from "./errors.ts";
import { EventKind, type EventLog } from "./events.ts";
import type { KvCache } from "./kv-cache.ts";
import type { BlockId, ReplicaView, RequestView, Scheduler, SchedulerContext, SequenceView } from "./plugins.ts";
import { type Request, Sequence, SequenceQueue } from "./request.ts";
import { StepPlan, type StepResult } from "./step.ts";
import type { Nanos } from "./trace.ts";

/** More than any prompt has, and still a small integer, which keeps the arithmetic of the hot path in integers. */
const unlimitedTokens = 2 ** 29;

/** Told when a request ends, for figures per request. */
export interface ReplicaListener {
  admitted?(sequence: Sequence, now: Nanos): void;
  finished?(sequence: Sequence, now: Nanos): void;
  refused?(sequence: Sequence, why: string, now: Nanos): void;
}

export interface ReplicaOptions {
  readonly cache: KvCache;
  readonly scheduler: Scheduler;
  readonly log?: EventLog | undefined;
  readonly listener?: ReplicaListener;
  /**
   * `step`: answers grow token by token and take blocks as they do. `skip`: a request ends with the step that computes
   * its prompt; its answer takes blocks only if the rules cache it. The clock-free replay skips: it counts prompts.
   */
  readonly generation: "step" | "skip";
}

/**
 * One model instance: queues, cache, scheduler. It has no clock, no file and no GPU, so that replay, simulator and
 * engine run this very code: `submit` requests, `plan` a step, run it somehow, `commit` it.
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
  /** Sequences of requests that ended, for those to come. */
  readonly #done: Sequence[] = [];
  #now: Nanos = 0;

  constructor(options: ReplicaOptions) {
    this.cache = options.cache;
    this.cache.lookup.isBeingComputed = (block) => this.running.some((sequence) => computesNow(sequence, block));
    this.#plan = new StepPlan(options.cache.copies);
    this.#scheduler = options.scheduler;
    this.#log = options.log;
    this.#listener = options.listener ?? {};
    this.#skip = options.generation === "skip";
  }

  /** Puts a request into the queue. */
  submit(request: Request, now: Nanos): Sequence {
    const sequence = this.#done.pop() ?? new Sequence(request);
    sequence.reuse(request);
    this.cache.expectKeys(request.blocks.distinct);
    this.#waiting.append(sequence);
    this.#scheduler.arrived?.(sequence, now);
    return sequence;
  }

  /** Whether nothing waits and nothing runs. */
  get isIdle(): boolean {
    return this.#waiting.count === 0 && this.running.length === 0;
  }

  /** The next step; empty if there is nothing to do. Valid until the next call. */
  plan(now: Nanos): StepPlan {
    this.#now = now;
    this.#plan.clear();
    this.#scheduler.plan(this, now);
    return this.#plan;
  }

  /** The step has run. */
  commit(plan: StepPlan, result: StepResult, now: Nanos): void {
    this.#now = now;
    this.#log?.add(EventKind.step, now, -1, -1, plan.count, plan.prefillTokens + plan.decodeTokens);
    const { items } = plan;
    for (let i = 0; i < plan.count; i++) {
      const { sequence, prefill, generate } = items[i];
      this.cache.computed(sequence, prefill, now);
      if (generate === 0) continue;
      sequence.generatedTokens += generate;
      const { request } = sequence;
      const done = result.finished ? result.finished[i] : sequence.generatedTokens >= request.outputTokens;
      if (done) this.#finish(sequence);
    }
  }

  /**
   * The step did not run (interrupted, out of memory): nothing of it can be found, and its sequences are back at the
   * head of the queue, in their order.
   */
  rollback(plan: StepPlan, now: Nanos): void {
    this.#now = now;
    // From the last to the first: what came later may count on what came before.
    const sequences = plan.items.slice(0, plan.count).map((item) => item.sequence);
    sequences.reverse();
    for (const sequence of sequences) this.cache.cancelled(sequence, now);
    plan.clear();
    for (const sequence of sequences) this.preempt(sequence, "recompute");
  }

  // What a scheduler and a router see.

  get firstWaiting(): Sequence | undefined {
    return this.#waiting.first;
  }
  get waitingCount(): number {
    return this.#waiting.count;
  }
  get runningCount(): number {
    return this.running.length;
  }
  get waitingTokens(): number {
    let tokens = 0;
    for (let sequence = this.#waiting.first; sequence; sequence = sequence.next) tokens += sequence.knownTokens;
    return tokens;
  }
  get blockTokens(): number {
    return this.cache.blockTokens;
  }
  get totalBlocks(): number | undefined {
    return this.cache.totalBlocks;
  }
  get availableBlocks(): number {
    return this.cache.availableBlocks;
  }
  get heldBlocks(): number {
    return this.cache.heldBlocks;
  }

  cachedTokens(of: SequenceView | RequestView): number {
    return this.cache.cachedTokens(of instanceof Sequence ? of : new Sequence(of as Request));
  }

  // What a scheduler can do.

  admit(view: SequenceView, tokens = unlimitedTokens): boolean {
    const sequence = view as Sequence;
    if (!this.cache.admit(sequence, tokens, this.#now)) return false;
    this.#waiting.remove(sequence);
    this.running.push(sequence);
    this.#listener.admitted?.(sequence, this.#now);
    this.#addToStep(sequence, tokens);
    return true;
  }

  schedule(view: SequenceView, tokens = unlimitedTokens): boolean {
    const sequence = view as Sequence;
    assert(!sequence.inStep, "a sequence is scheduled twice in one step");
    const end = Math.min(sequence.knownTokens, sequence.computedTokens + tokens);
    if (!this.cache.extend(sequence, end, this.#now)) return false;
    this.#addToStep(sequence, tokens);
    return true;
  }

  preempt(view: SequenceView, how: "recompute" | "swap"): void {
    assert(how === "recompute", `preemption by ${how} needs a host tier`);
    const sequence = view as Sequence;
    if (sequence.inStep) this.#removeFromStep(sequence);
    this.#stopRunning(sequence);
    this.cache.preempt(sequence, this.#now);
    this.#waiting.prepend(sequence);
  }

  refuse(view: SequenceView, why: string): void {
    const sequence = view as Sequence;
    if (sequence.inStep) this.#removeFromStep(sequence);
    if (this.running.includes(sequence)) this.#stopRunning(sequence);
    else this.#waiting.remove(sequence);
    this.cache.refuse(sequence, this.#now);
    this.#listener.refused?.(sequence, why, this.#now);
  }

  #addToStep(sequence: Sequence, limit: number): void {
    const { cache } = this;
    const from = sequence.computedTokens;
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
    sequence.stepTokens = tokens;
    sequence.inStep = true;
    cache.scheduled(sequence, this.#now);
    this.#plan.add(sequence, from, tokens, prefill, generate);
  }

  /** Out of the step, and with it whoever counts on what it was to compute there. */
  #removeFromStep(sequence: Sequence): void {
    this.#plan.remove(sequence);
    const { items, count } = this.#plan;
    const dependents = items.slice(0, count).map((item) => item.sequence);
    const cut = dependents.filter((other) => this.cache.dependsOn(other, sequence));
    // From the last to the first, so that they wait in their order.
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
    assert(at >= 0, "a sequence that does not run stops");
    running.splice(at, 1);
  }
}

/** Whether the step that is being planned computes what the block is known for, rather than adding an answer to it. */
function computesNow(sequence: Sequence, block: BlockId): boolean {
  const { inStep, table, computedBlocks, computingEnd } = sequence;
  if (!inStep) return false;
  const at = table.subarray(0, computingEnd).indexOf(block, computedBlocks);
  // What it holds instead of an own block is somebody else's to compute, or done.
  return at >= 0 && !sequence.sharesAt(at);
}
