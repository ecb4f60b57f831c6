import { assert, InputError } from "../core/errors.ts";
import type { EventLog } from "../core/events.ts";
import type { KvCache } from "../core/kv-cache.ts";
import type { Scheduler } from "../core/plugins.ts";
import { Replica } from "../core/replica.ts";
import type { Request, Sequence } from "../core/request.ts";
import type { StepPlan } from "../core/step.ts";
import type { Nanos } from "../core/trace.ts";
import type { Batch } from "./arrivals.ts";
import { type CostModel, noLoad, type StepLoad } from "./cost/cost-model.ts";
import { never } from "./outcomes.ts";
import { measure } from "./step-load.ts";
import type { Levels, TimeSeries } from "./time-series.ts";

/** Hears of everything that takes time, for tables and timelines. */
export interface StepObserver {
  /** `count` steps like this one, the first of them from `startNs`; the i-th one ends at `endsNs[i]`. */
  steps?(
    replica: SimulatedReplica,
    load: Readonly<StepLoad>,
    startNs: Nanos,
    count: number,
    endsNs: Float64Array,
  ): void;
  arrived?(request: Request, replica: number, nowNs: Nanos): void;
  admitted?(sequence: Sequence, replica: number, nowNs: Nanos): void;
  firstToken?(sequence: Sequence, replica: number, nowNs: Nanos): void;
  ended?(sequence: Sequence, replica: number, nowNs: Nanos, refused: string | undefined): void;
}

export interface SimulatedReplicaParts {
  readonly number: number;
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
  readonly scheduler: Scheduler;
  readonly cost: CostModel;
  readonly series: TimeSeries;
  readonly hostBlocks: number;
  readonly everyStep: boolean;
  readonly observer?: StepObserver;
  readonly before?: (request: number, cache: KvCache) => void;
  readonly audit?: (replica: Replica) => void;
  batchOf(id: number): Batch;
  ended(batch: Batch, row: number): void;
}

/** Steps that are advanced at once, at most: the room for when each of them ended. */
const mostRepeated = 4096;

/** A replica and its clock: how long its steps take, and what happened when. */
export class SimulatedReplica {
  readonly number: number;
  readonly replica: Replica;
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
  /** A step is under way. */
  isBusy = false;
  /** Why requests were refused, and how many. */
  readonly refusals = new Map<string, number>();
  stepCount = 0;
  busyNs: Nanos = 0;
  readonly #parts: SimulatedReplicaParts;
  readonly #load = noLoad();
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
  /** Of the cache's counters, what the series has been told. */
  readonly #told = { lookupTokens: 0, hitTokens: 0, evictedBlocks: 0, preemptions: 0 };
  readonly #endsNs = new Float64Array(mostRepeated);
  #plan: StepPlan | undefined;
  /** Nothing has happened since the last step but that it ended: the next one may be like it. */
  #undisturbed = false;
  #startedNs = 0;

  constructor(parts: SimulatedReplicaParts) {
    const { cache, scheduler, log, hostBlocks, number } = parts;
    this.#parts = parts;
    this.number = number;
    this.cache = cache;
    this.log = log;
    const listener = {
      firstToken: (sequence: Sequence, nowNs: Nanos) => this.#firstToken(sequence, nowNs),
      admitted: (sequence: Sequence, nowNs: Nanos) => this.#admitted(sequence, nowNs),
      finished: (sequence: Sequence, nowNs: Nanos) => this.#ended(sequence, nowNs, undefined),
      refused: (sequence: Sequence, why: string, nowNs: Nanos) => this.#ended(sequence, nowNs, why),
    };
    this.replica = new Replica({ cache, scheduler, log, generation: "step", hostBlocks, listener });
    this.#readLevels(0);
  }

  submit(request: Request, nowNs: Nanos): void {
    const { before } = this.#parts;
    this.settle(nowNs);
    before?.(request.id, this.cache);
    this.replica.submit(request, nowNs);
    this.#parts.observer?.arrived?.(request, this.number, nowNs);
    this.#undisturbed = false;
    this.#readLevels(nowNs);
  }

  /** Counters begin anew. */
  endWarmup(nowNs: Nanos): void {
    this.cache.counters.reset();
    this.stepCount = 0;
    // What has passed of the step under way will be counted with the rest of it.
    this.busyNs = this.#plan === undefined ? 0 : this.#startedNs - nowNs;
    for (const name of toldCounters) this.#told[name] = 0;
  }

  /**
   * Plans the next step; returns when it ends, or undefined if there is nothing to do. Steps that are known to be like the last
   * one are taken at once as long as they end no later than `horizonNs`, before which nothing arrives here.
   */
  startStep(nowNs: Nanos, horizonNs: Nanos): Nanos | undefined {
    this.settle(nowNs);
    if (this.#undisturbed) {
      const endNs = this.#repeat(nowNs, horizonNs);
      if (endNs > nowNs) return endNs;
    }
    const plan = this.replica.plan(nowNs);
    this.#parts.audit?.(this.replica);
    this.#readLevels(nowNs);
    if (plan.isEmpty) {
      this.#levels.busy = 0;
      return undefined;
    }
    const { cost } = this.#parts;
    measure(this.#load, plan, cost.windowTokens);
    const endNs = nowNs + this.#stepNs();
    this.#plan = plan;
    this.#startedNs = nowNs;
    this.isBusy = true;
    this.#levels.busy = 1;
    return endNs;
  }

  /** The step under way ends. */
  endStep(nowNs: Nanos): void {
    this.isBusy = false;
    this.#undisturbed = true;
    const plan = this.#plan;
    // Steps that were taken at once are settled already.
    if (plan === undefined) return;
    this.#plan = undefined;
    this.settle(nowNs);
    const { observer, audit, everyStep } = this.#parts;
    this.#endsNs[0] = nowNs;
    this.#count(this.#startedNs, 1);
    observer?.steps?.(this, this.#load, this.#startedNs, 1, this.#endsNs);
    this.replica.commit(plan, { durationNs: nowNs - this.#startedNs }, nowNs);
    audit?.(this.replica);
    this.#readLevels(nowNs);
    this.#levels.busy = 0;
    if (everyStep || this.#parts.cost.inOrder) this.#undisturbed = false;
  }

  #firstToken(sequence: Sequence, nowNs: Nanos): void {
    const { batchOf, observer } = this.#parts;
    const { id } = sequence.request;
    const { outcomes, firstId } = batchOf(id);
    outcomes.firstTokenNs[id - firstId] = nowNs;
    observer?.firstToken?.(sequence, this.number, nowNs);
  }

  /** Takes as many steps like the last one as are sure to follow and end by `horizonNs`; returns when the last one ended. */
  #repeat(nowNs: Nanos, horizonNs: Nanos): Nanos {
    const { cost, observer } = this.#parts;
    const load = this.#load;
    let most = Math.min(this.replica.repeatableSteps(), mostRepeated);
    if (most === 0) return nowNs;
    const { windowTokens } = cost;
    if (windowTokens !== undefined) most = Math.min(most, this.#stepsInWindow(windowTokens));
    const growing = windowTokens === undefined ? load.decodeTokens : this.#growing;
    // What the last one copied and moved is there now.
    load.copiedBlocks = load.swappedTokens = 0;
    const endsNs = this.#endsNs;
    let endNs = nowNs;
    let steps = 0;
    for (; steps < most; steps++) {
      load.decodeContextTokens += load.decodeTokens;
      load.decodeWindowTokens += growing;
      const next = endNs + this.#stepNs();
      if (next > horizonNs) {
        load.decodeContextTokens -= load.decodeTokens;
        load.decodeWindowTokens -= growing;
        break;
      }
      endNs = next;
      endsNs[steps] = endNs;
    }
    if (steps === 0) return nowNs;
    this.replica.repeat(steps, endsNs);
    this.#count(nowNs, steps);
    observer?.steps?.(this, load, nowNs, steps, endsNs);
    this.isBusy = true;
    this.#levels.busy = 1;
    return endNs;
  }

  /** Sequences whose window is not full yet, as found by `#stepsInWindow`. */
  #growing = 0;

  /** Steps until the window of one more sequence is full. */
  #stepsInWindow(windowTokens: number): number {
    let steps = mostRepeated;
    this.#growing = 0;
    for (const { computedTokens } of this.replica.running) {
      if (computedTokens >= windowTokens) continue;
      this.#growing++;
      steps = Math.min(steps, windowTokens - computedTokens);
    }
    return steps;
  }

  #stepNs(): Nanos {
    const { cost } = this.#parts;
    const durationNs = cost.stepNs(this.#load);
    if (durationNs > Number.MAX_SAFE_INTEGER)
      throw new InputError(`by its ${cost.name} costs a step takes ${durationNs} ns, more than 2^53 (104 days)`);
    assert(Number.isInteger(durationNs) && durationNs > 0, () => `a step takes ${durationNs} ns`);
    return durationNs;
  }

  #count(startNs: Nanos, steps: number): void {
    const { prefillTokens, decodeTokens, logits } = this.#load;
    this.stepCount += steps;
    this.busyNs += this.#endsNs[steps - 1] - startNs;
    this.#parts.series.addSteps(this.#endsNs, steps, prefillTokens + decodeTokens, logits);
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
    const { batchOf, observer, series, ended } = this.#parts;
    const { id } = sequence.request;
    const batch = batchOf(id);
    const row = id - batch.firstId;
    batch.outcomes.preemptions[row] = sequence.preemptions;
    batch.outcomes.finishedNs[row] = nowNs;
    if (refused !== undefined) {
      batch.outcomes.refused[row] = 1;
      if (id >= this.cache.countFrom) this.refusals.set(refused, (this.refusals.get(refused) ?? 0) + 1);
    }
    series.add(refused === undefined ? "finished" : "refused", nowNs, 1);
    observer?.ended?.(sequence, this.number, nowNs, refused);
    ended(batch, row);
  }

  /** The levels were what they are until now. */
  settle(nowNs: Nanos): void {
    this.#parts.series.hold(this.#levels, this.#levelsSinceNs, nowNs);
    this.#levelsSinceNs = nowNs;
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
    const { counters } = cache;
    const told = this.#told;
    for (const name of toldCounters) {
      if (counters[name] === told[name]) continue;
      this.#parts.series.add(name, nowNs, counters[name] - told[name]);
      told[name] = counters[name];
    }
  }
}

const toldCounters = ["lookupTokens", "hitTokens", "evictedBlocks", "preemptions"] as const;
