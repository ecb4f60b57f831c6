import type { KvCache } from "../cache/kv-cache.ts";
import type { Request, Sequence } from "../cache/request.ts";
import { assert } from "../errors.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Scheduler } from "../plugins/index.ts";
import { type AdmissionLimit, admissionLimits } from "../plugins/scheduler.ts";
import { Replica } from "../replica/replica.ts";
import type { Speculation } from "../replica/speculation.ts";
import type { StepPlan } from "../replica/step.ts";
import type { Nanos } from "../trace/trace.ts";
import type { TraceBatch } from "./arrivals.ts";
import type { StepObserver } from "./observers.ts";
import { never } from "./outcomes.ts";
import { measure, noLoad, type StepLoad, type StepLoadExtension } from "./step-load.ts";
import type { Levels, TimeSeries } from "./time-series.ts";

export interface TimedReplicaParts {
  readonly number: number;
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
  readonly scheduler: Scheduler;
  readonly series: TimeSeries;
  readonly hostBlocks: number;
  /** Delay between the replica and the client, after which output tokens and refusals arrive there. */
  readonly returnNs: Nanos;
  readonly speculation?: Speculation | undefined;
  /** The attention window of sliding-window layers; undefined if no layer has one. */
  readonly windowTokens?: number | undefined;
  /** Most batches in flight. */
  readonly batchesInFlight: number;
  /** Loads that depend on the backend, if step times depend on them. */
  readonly calls?: StepLoadExtension | undefined;
  /** Output tokens decide when a request finishes, rather than the trace's output length. */
  readonly decidesEnds: boolean;
  readonly observer: StepObserver | undefined;
  readonly before?: ((request: number, cache: KvCache, nowNs: Nanos) => void) | undefined;
  readonly audit?: ((replica: Replica) => void) | undefined;
  batchOf(id: number): TraceBatch;
  ended(batch: TraceBatch, row: number, nowNs: Nanos): void;
  /** The callbacks of a replica in a disaggregated cluster. */
  readonly disaggregated?: DisaggregatedListener | undefined;
}

export interface DisaggregatedListener {
  readonly isPrefill: boolean;
  /** The first token of the request was generated. */
  prefilled(request: number, nowNs: Nanos): void;
  /** Blocks are allocated for the request, which has `tokens` tokens to fetch, and `cachedTokens` in the cache. */
  fetches(request: number, tokens: number, cachedTokens: number, nowNs: Nanos): void;
}

/** A step that has started. */
interface Batch {
  plan: StepPlan | undefined;
  readonly load: StepLoad;
  startedNs: Nanos;
}

/**
 * A replica that records request and step times, in virtual or real time: into the outcomes of its requests, the time series and
 * the observers. A `StepRunner` calls `beginStep` and determines the end of the step.
 */
export class TimedReplica {
  readonly number: number;
  readonly replica: Replica;
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
  /** Whether no step can be planned: as many batches are in flight as there may be, or the others have all sequences. */
  isBusy = false;
  /** Number of measured requests that were refused, by reason. */
  readonly refusals = new Map<string, number>();
  stepCount = 0;
  busyNs: Nanos = 0;
  /** Time of steps in which requests waited, by the limit that they waited for, and the end of the last such step. */
  readonly waitNs: Record<AdmissionLimit, Nanos> = noWaits();
  lastWaitNs: Nanos = 0;
  readonly #parts: TimedReplicaParts;
  /** The load of the step that started last. */
  load = noLoad();
  /** Batches in flight: `#inFlight` elements from `#oldest` on, in a ring. */
  readonly #batches: Batch[];
  #oldest = 0;
  #inFlight = 0;
  /** End of the last step: batches in flight overlap, and their time is counted once. */
  #countedNs: Nanos = 0;
  readonly #levels: Levels = {
    waiting: 0,
    running: 0,
    freeBlocks: 0,
    privateBlocks: 0,
    idleBlocks: 0,
    heldBlocks: 0,
    busy: 0,
  };
  #levelsSinceNs = 0;
  /** Values of the cache's counters that are in the series. */
  readonly #reported = noCounts();
  readonly #endNs = new Float64Array(1);
  /** Whether no request has arrived since the last step ended; only then the next step may repeat that step. */
  isUndisturbed = false;

  constructor(parts: TimedReplicaParts) {
    const { cache, scheduler, log, hostBlocks, number } = parts;
    this.#parts = parts;
    this.number = number;
    this.cache = cache;
    this.log = log;
    const listener = {
      firstToken: (sequence: Sequence, nowNs: Nanos) => this.#firstToken(sequence, nowNs),
      swappedOut: (sequence: Sequence, tokens: number) => parts.observer?.swappedOut?.(sequence, tokens),
      swappedIn: (sequence: Sequence, tokens: number) => parts.observer?.swappedIn?.(sequence, tokens),
      admitted: (sequence: Sequence, nowNs: Nanos) => this.#admitted(sequence, nowNs),
      finished: (sequence: Sequence, nowNs: Nanos) => this.#ended(sequence, nowNs, undefined),
      refused: (sequence: Sequence, why: string, nowNs: Nanos) => this.#ended(sequence, nowNs, why),
    };
    const { disaggregated, batchesInFlight, speculation } = parts;
    this.#batches = Array.from({ length: batchesInFlight }, () => ({ plan: undefined, load: noLoad(), startedNs: 0 }));
    this.replica = new Replica({
      ...{ cache, scheduler, log, generation: "step", hostBlocks, speculation, batchesInFlight },
      ...(disaggregated && { isPrefillOnly: disaggregated.isPrefill }),
      listener: {
        ...listener,
        ...(disaggregated && {
          prefilled: (sequence: Sequence, nowNs: Nanos) => {
            this.#addPreemptions(sequence);
            disaggregated.prefilled(sequence.request.id, nowNs);
          },
          fetches: ({ request, cachedTokens }: Sequence, tokens: number, nowNs: Nanos) =>
            disaggregated.fetches(request.id, tokens, cachedTokens, nowNs),
        }),
      },
    });
    this.#readLevels(0);
  }

  /** Whether it computes prompts and first tokens only. */
  get isPrefill(): boolean {
    return this.#parts.disaggregated?.isPrefill ?? false;
  }

  submit(request: Request, nowNs: Nanos): void {
    const { before } = this.#parts;
    this.addLevelsUntil(nowNs);
    before?.(request.id, this.cache, nowNs);
    this.replica.submit(request, nowNs);
    this.#parts.observer?.arrived?.(request, this.number, nowNs);
    this.isUndisturbed = false;
    this.#readLevels(nowNs);
  }

  /** The request's prompt and first token were computed by another replica. */
  submitPrefilled(request: Request, nowNs: Nanos): void {
    this.#change(nowNs, () => this.replica.submit(request, nowNs, true));
  }

  /** The KV of the request has arrived. */
  received(request: number, nowNs: Nanos): void {
    this.#change(nowNs, () => this.replica.received(request, nowNs));
  }

  /** The blocks of a prefilled request are released. */
  release(request: number, nowNs: Nanos): void {
    this.#change(nowNs, () => this.replica.release(request, nowNs));
  }

  /** As `Replica.cancel`. */
  cancel(request: number, nowNs: Nanos): boolean {
    let isFound = false;
    this.#change(nowNs, () => {
      isFound = this.replica.cancel(request, nowNs);
    });
    return isFound;
  }

  /** A change between steps. */
  #change(nowNs: Nanos, act: () => void): void {
    this.addLevelsUntil(nowNs);
    act();
    this.#parts.audit?.(this.replica);
    this.isUndisturbed = false;
    this.#readLevels(nowNs);
  }

  /** Resets the counters: the first measured request arrives. */
  beginMetrics(nowNs: Nanos): void {
    this.addLevelsUntil(nowNs);
    this.cache.beginMetrics();
    this.stepCount = 0;
    Object.assign(this.replica.drafts, { tokens: 0, accepted: 0, decodes: 0 });
    // The whole duration of a running step is added at its end; the part before `nowNs` is subtracted here.
    this.busyNs = this.#inFlight === 0 ? 0 : Math.max(this.#batches[this.#oldest].startedNs, this.#countedNs) - nowNs;
    for (const limit of admissionLimits) this.waitNs[limit] = 0;
    Object.assign(this.#reported, noCounts());
  }

  /** Plans the next step, which then runs; undefined if the plan is empty. */
  beginStep(nowNs: Nanos): StepPlan | undefined {
    this.addLevelsUntil(nowNs);
    const plan = this.replica.plan(nowNs);
    this.#parts.audit?.(this.replica);
    this.#readLevels(nowNs);
    if (plan.isEmpty) {
      this.isBusy = this.#inFlight > 0;
      this.#levels.busy = this.isBusy ? 1 : 0;
      return undefined;
    }
    const { windowTokens, calls, batchesInFlight } = this.#parts;
    const batch = this.#batches[(this.#oldest + this.#inFlight++) % batchesInFlight];
    this.isBusy = this.#inFlight === batchesInFlight;
    this.#levels.busy = 1;
    this.load = batch.load;
    measure(batch.load, plan, windowTokens);
    calls?.measure(batch.load, plan);
    batch.startedNs = nowNs;
    this.#parts.observer?.planned?.(this, plan, nowNs);
    batch.plan = this.replica.start(plan, nowNs);
    return plan;
  }

  /** Commits the running step; `finished` as in `StepResult`. */
  endStep(nowNs: Nanos, finished?: readonly boolean[]): void {
    this.isBusy = false;
    this.isUndisturbed = true;
    // Repeated steps are committed already.
    if (this.#inFlight === 0) return;
    const { startedNs, load, plan } = this.#batches[this.#oldest];
    assert(plan !== undefined, "a step ends that has not started");
    this.#inFlight--;
    this.#oldest = (this.#oldest + 1) % this.#batches.length;
    this.addLevelsUntil(nowNs);
    const { observer, audit } = this.#parts;
    this.#endNs[0] = nowNs;
    this.#count(startedNs, 1, this.#endNs, load, plan.generatedTokens);
    observer?.steps?.(this, load, startedNs, 1, this.#endNs);
    const durationNs = nowNs - startedNs;
    this.replica.commit(plan, finished ? { durationNs, finished } : { durationNs }, nowNs);
    audit?.(this.replica);
    this.#readLevels(nowNs);
    this.#levels.busy = this.#inFlight > 0 ? 1 : 0;
  }

  /** Repeats the last step `steps` times from `nowNs` on: step i ends at `endsNs[i]`, and `load` is that of the last one. */
  repeatStep(nowNs: Nanos, steps: number, endsNs: Float64Array): void {
    this.addLevelsUntil(nowNs);
    this.replica.repeat(steps, endsNs);
    this.#count(nowNs, steps, endsNs, this.load, this.load.logits);
    this.#parts.observer?.steps?.(this, this.load, nowNs, steps, endsNs);
    this.isBusy = true;
    this.#levels.busy = 1;
  }

  #firstToken(sequence: Sequence, nowNs: Nanos): void {
    const { batchOf, observer, returnNs } = this.#parts;
    const { id } = sequence.request;
    const { outcomes, firstId } = batchOf(id);
    outcomes.firstTokenNs[id - firstId] = nowNs + returnNs;
    observer?.firstToken?.(sequence, this.number, nowNs);
  }

  #count(startNs: Nanos, steps: number, endsNs: Float64Array, load: StepLoad, generatedTokens: number): void {
    const { prefillTokens, decodeTokens } = load;
    this.stepCount += steps;
    const endNs = endsNs[steps - 1];
    const busyNs = endNs - Math.max(startNs, this.#countedNs);
    this.#countedNs = endNs;
    this.busyNs += busyNs;
    const { waitsFor } = this.replica;
    if (waitsFor !== undefined) {
      this.waitNs[waitsFor] += busyNs;
      this.lastWaitNs = endNs;
    }
    this.#parts.series.addSteps(endsNs, steps, prefillTokens + decodeTokens, generatedTokens);
  }

  #admitted(sequence: Sequence, nowNs: Nanos): void {
    const { batchOf, observer } = this.#parts;
    const { id } = sequence.request;
    const { outcomes, firstId } = batchOf(id);
    const row = id - firstId;
    if (outcomes.admittedNs[row] === never) {
      outcomes.admittedNs[row] = nowNs;
      outcomes.hitBlocks[row] = sequence.cachedBlocks;
      outcomes.hitTokens[row] = sequence.cachedTokens;
    }
    observer?.admitted?.(sequence, this.number, nowNs);
  }

  #ended(sequence: Sequence, nowNs: Nanos, refused: string | undefined): void {
    const { batchOf, observer, series, decidesEnds, returnNs, ended } = this.#parts;
    const { id } = sequence.request;
    const batch = batchOf(id);
    const row = id - batch.firstId;
    this.#addPreemptions(sequence);
    batch.outcomes.finishedNs[row] = nowNs + returnNs;
    if (decidesEnds) batch.outcomes.outputTokens[row] = sequence.generatedTokens;
    if (refused !== undefined) {
      batch.outcomes.refused[row] = 1;
      if (id >= this.cache.countFrom) this.refusals.set(refused, (this.refusals.get(refused) ?? 0) + 1);
    }
    series.add(refused === undefined ? series.counts.finished : series.counts.refused, nowNs, 1);
    observer?.ended?.(sequence, this.number, nowNs, refused);
    ended(batch, row, nowNs);
  }

  #addPreemptions({ request, preemptions }: Sequence): void {
    const { outcomes, firstId } = this.#parts.batchOf(request.id);
    outcomes.preemptions[request.id - firstId] += preemptions;
  }

  /** Adds the levels since the last sample to the series. */
  addLevelsUntil(nowNs: Nanos): void {
    this.expireUntil(nowNs);
    this.#addLevels(nowNs);
  }

  /** Evicts the entries that have expired by now; each of them changes the levels at its time. */
  expireUntil(nowNs: Nanos): void {
    const { cache } = this;
    for (let at = cache.nextExpiry; at <= nowNs; at = cache.nextExpiry) {
      this.#addLevels(Math.max(at, this.#levelsSinceNs));
      cache.advanceTo(at);
      this.#readLevels(at);
    }
  }

  #addLevels(nowNs: Nanos): void {
    this.#parts.series.addLevels(this.#levels, this.#levelsSinceNs, nowNs);
    this.#levelsSinceNs = nowNs;
  }

  /** A copy of the present levels. */
  get levels(): Levels {
    return { ...this.#levels };
  }

  /** Adds the levels since the last sample to another series: for snapshots of a run. */
  addLevelsTo(series: TimeSeries, nowNs: Nanos): void {
    series.addLevels(this.#levels, this.#levelsSinceNs, nowNs);
  }

  #readLevels(nowNs: Nanos): void {
    const { replica, cache } = this;
    const levels = this.#levels;
    const cached = cache.index.blockCount;
    const idle = cache.index.evictableBlocks;
    const free = cache.freeBlocks;
    levels.waiting = replica.waitingCount;
    levels.running = replica.runningCount;
    levels.freeBlocks = free;
    levels.idleBlocks = idle;
    levels.heldBlocks = cached - idle;
    levels.privateBlocks = cache.pool.blockCount - free - cached;
    this.#addCounters(nowNs);
  }

  /** Adds the growth of the cache's counters since the last call to the series; after most steps none has changed. */
  #addCounters(nowNs: Nanos): void {
    const { series } = this.#parts;
    // Fixed names, unlike names in a loop, are compiled to plain loads.
    const { lookupTokens, hitTokens, evictedBlocks, preemptions } = this.cache.counters;
    const reported = this.#reported;
    if (lookupTokens !== reported.lookupTokens) {
      series.add(series.counts.lookupTokens, nowNs, lookupTokens - reported.lookupTokens);
      reported.lookupTokens = lookupTokens;
    }
    if (hitTokens !== reported.hitTokens) {
      series.add(series.counts.hitTokens, nowNs, hitTokens - reported.hitTokens);
      reported.hitTokens = hitTokens;
    }
    if (evictedBlocks !== reported.evictedBlocks) {
      series.add(series.counts.evictedBlocks, nowNs, evictedBlocks - reported.evictedBlocks);
      reported.evictedBlocks = evictedBlocks;
    }
    if (preemptions !== reported.preemptions) {
      series.add(series.counts.preemptions, nowNs, preemptions - reported.preemptions);
      reported.preemptions = preemptions;
    }
  }
}

const noCounts = () => ({ lookupTokens: 0, hitTokens: 0, evictedBlocks: 0, preemptions: 0 });

const noWaits = (): Record<AdmissionLimit, Nanos> => ({
  "max-num-seqs": 0,
  "token-budget": 0,
  blocks: 0,
  scheduler: 0,
});
