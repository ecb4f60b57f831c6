import { audit } from "../core/cache/audit.ts";
import type { KvCache } from "../core/cache/kv-cache.ts";
import { assert, InputError, PolicyError } from "../core/errors.ts";
import { EventLog } from "../core/log/events.ts";
import type { FutureView, Router } from "../core/plugins/index.ts";
import {
  blockKeysFor,
  type CacheConfig,
  createCache,
  createScheduler,
  type SchedulerConfig,
} from "../core/replica/compose.ts";
import { usableBlocksOf } from "../core/replica/replay.ts";
import { type ArrivalOptions, Arrivals, type TraceBatch } from "../core/serving/arrivals.ts";
import { EventQueue } from "../core/serving/event-queue.ts";
import { TimeSeries } from "../core/serving/time-series.ts";
import type { StepObserver } from "../core/serving/timed-replica.ts";
import type { BlockColumns, BlockKeys } from "../core/trace/content.ts";
import type { Nanos, Trace } from "../core/trace/trace.ts";
import type { CostModel } from "./cost/cost-model.ts";
import { SimulatedReplica } from "./simulated-replica.ts";

export interface SimulationConfig extends CacheConfig, SchedulerConfig {
  /** How long a step takes; of several replicas each has its own. */
  readonly cost: (replica: number) => CostModel;
  readonly replicas?: number;
  /** Absent: the first replica gets everything, which is right if there is one. */
  readonly router?: Router | undefined;
  readonly arrivals?: ArrivalOptions;
  /** Blocks that the host has for sequences that are swapped out. */
  readonly hostBlocks?: number;
  /** Requests at the start that are left out of the figures. */
  readonly warmup?: number;
  /** Keep an event log of every replica. */
  readonly events?: boolean;
  /** Check every invariant in full after every plan and every commit; slow. */
  readonly audit?: boolean;
  /** Plan every single step, also where a row of them is known to be alike; for tests. */
  readonly everyStep?: boolean;
  /** Told of each request before it is served, and of every step. */
  readonly before?: (request: number, cache: KvCache, nowNs: Nanos) => void;
  readonly observer?: StepObserver;
}

/**
 * A cluster of replicas in virtual time. Events are processed in the order of their time, and at one time in this order: steps
 * that end, requests that arrive (and are routed), new steps; of steps those of the first replica first, whenever they began.
 * Replicas, schedulers and caches are those of every other target.
 *
 *   trace ─▶ arrivals ─▶ router ─▶ replica: plan ─▶ cost model ─▶ (so many ns later) commit ─▶ plan …
 */
export class Simulation {
  readonly series = new TimeSeries();
  readonly arrivals: Arrivals;
  readonly replicas: SimulatedReplica[] = [];
  /** Requests that ended or were refused. */
  done = 0;
  nowNs: Nanos = 0;
  readonly #config: SimulationConfig;
  /** Ends of steps, by replica, and turns that wait for their think time to pass, by request. */
  readonly #steps = new EventQueue();
  readonly #turns = new EventQueue();
  #keys: BlockKeys | undefined;
  #last = false;
  #isWarm = false;
  /** Replicas that have something to decide at this time. */
  readonly #ready: SimulatedReplica[] = [];
  readonly #stepped: SimulatedReplica[] = [];

  constructor(config: SimulationConfig) {
    this.#config = config;
    // Which contents several replicas have can only be told from what they were asked.
    this.arrivals = new Arrivals(config.arrivals, (config.replicas ?? 1) > 1);
  }

  /** The next requests. Policies that read the future are told all of the first trace, so that must be all there is. */
  feed(trace: Trace, blocks?: BlockColumns): void {
    const columns = blocks ?? (this.#keys ??= blockKeysFor(this.#config, trace.unitTokens)).of(trace);
    if (this.replicas.length === 0) this.#start(trace, columns);
    this.arrivals.feed(trace, columns);
  }

  /** No more will be fed. */
  end(): void {
    this.#last = true;
  }

  /**
   * Goes on until `events` more have been processed, the next request has not been fed yet, or all is done; returns whether it
   * is to be called again as it is. A closed loop begins when all has been fed: who waits for whom, and for how long, must not
   * depend on how much was read at a time.
   */
  run(events = Number.POSITIVE_INFINITY): boolean {
    for (let i = 0; i < events; i++) {
      if (this.#isUnknown) return false;
      const nowNs = this.#ready.length > 0 ? this.nowNs : this.#nextNs;
      if (nowNs === Number.POSITIVE_INFINITY) {
        this.#checkNothingWaits();
        for (const replica of this.replicas) replica.settle(this.nowNs);
        return false;
      }
      assert(nowNs >= this.nowNs, `time goes back from ${this.nowNs} to ${nowNs} ns`);
      if (nowNs > Number.MAX_SAFE_INTEGER)
        throw new InputError("the simulation comes to 104 days (2^53 ns), later than which times are not exact");
      this.nowNs = nowNs;
      this.#happen(nowNs);
    }
    return true;
  }

  /** Whether the next request is still to be fed, so that nobody knows what happens before it. */
  get #isUnknown(): boolean {
    return !this.#last && (this.arrivals.isClosed || this.arrivals.nextNs === Number.POSITIVE_INFINITY);
  }

  get #nextNs(): Nanos {
    return Math.min(this.arrivals.nextNs, this.#steps.nextNs, this.#turns.nextNs);
  }

  #happen(nowNs: Nanos): void {
    if (this.#steps.nextNs === nowNs) this.#endSteps(nowNs);
    while (this.#turns.nextNs === nowNs) this.#arrive(this.#turns.pop());
    while (this.arrivals.nextNs === nowNs) this.#arrive(this.arrivals.take());
    // The next batch may begin with requests that arrive now.
    if (this.#isUnknown) return;
    this.#startSteps();
  }

  #endSteps(nowNs: Nanos): void {
    const stepped = this.#stepped;
    while (this.#steps.nextNs === nowNs) stepped.push(this.replicas[this.#steps.pop()]);
    if (stepped.length > 1) stepped.sort(byNumber);
    for (const replica of stepped) {
      replica.endStep(nowNs);
      this.#isReady(replica);
    }
    stepped.length = 0;
  }

  #arrive(id: number): void {
    const { nowNs, arrivals } = this;
    this.#beginFigures(id);
    const batch = arrivals.batchOf(id);
    const row = id - batch.firstId;
    const request = batch.request(row);
    batch.outcomes.arrivalNs[row] = nowNs;
    const to = this.#config.router?.route(request, this.#views, nowNs) ?? 0;
    if (!(Number.isInteger(to) && to >= 0 && to < this.replicas.length))
      throw new PolicyError(`the router chose replica ${to} of ${this.replicas.length}`);
    batch.outcomes.replica[row] = to;
    this.series.add("arrivals", nowNs, 1);
    this.replicas[to].submit(request, nowNs);
    if (!this.replicas[to].isBusy) this.#isReady(this.replicas[to]);
  }

  /** Figures begin with the arrival of the first request that is in them. */
  #beginFigures(id: number): void {
    if (this.#isWarm || id < (this.#config.warmup ?? 0)) return;
    this.#isWarm = true;
    for (const replica of this.replicas) replica.beginMetrics(this.nowNs);
    this.series.begin(this.nowNs);
  }

  #isReady(replica: SimulatedReplica): void {
    if (!this.#ready.includes(replica)) this.#ready.push(replica);
  }

  #startSteps(): void {
    const ready = this.#ready;
    if (ready.length > 1) ready.sort(byNumber);
    for (let i = 0; i < ready.length; i++) {
      const replica = ready[i];
      const endNs = replica.startStep(this.nowNs, this.#horizonNs(i === ready.length - 1));
      if (endNs !== undefined) this.#steps.push(endNs, replica.number);
    }
    ready.length = 0;
  }

  /** Nothing arrives anywhere before. In a closed loop a step that ends elsewhere may make a request arrive. */
  #horizonNs(allOthersRun: boolean): Nanos {
    if (!this.arrivals.isClosed) return this.arrivals.nextNs;
    return allOthersRun ? this.#nextNs : this.nowNs;
  }

  /** A request has ended, or was refused. */
  #ended(batch: TraceBatch, row: number): void {
    this.done++;
    this.#config.router?.finished?.(batch.request(row), batch.outcomes.replica[row], this.nowNs);
    this.arrivals.ended(batch.firstId + row, this.nowNs, this.#wake);
  }

  readonly #wake = (id: number, arrivalNs: Nanos) => this.#turns.push(arrivalNs, id);

  #views: readonly SimulatedReplica["replica"][] = [];

  #start(trace: Trace, blocks: BlockColumns): void {
    const config = this.#config;
    const future: FutureView = {
      blocks,
      requestCount: trace.requestCount,
      get usableBlocks() {
        return usableBlocksOf(trace, blocks, config);
      },
    };
    for (let number = 0; number < (config.replicas ?? 1); number++) {
      const log = config.events ? new EventLog() : undefined;
      const cache = createCache({ ...config, namespaces: blocks.plainKeys !== undefined }, log, future);
      cache.countFrom = config.warmup ?? 0;
      this.replicas.push(
        new SimulatedReplica({
          number,
          cache,
          log,
          scheduler: createScheduler(config, cache.rules, number),
          cost: config.cost(number),
          series: this.series,
          batchOf: (id) => this.arrivals.batchOf(id),
          ended: (batch, row) => this.#ended(batch, row),
          hostBlocks: config.hostBlocks ?? 0,
          everyStep: config.everyStep ?? false,
          ...(config.before && { before: config.before }),
          ...(config.observer && { observer: config.observer }),
          ...(config.audit && { audit: (replica) => audit(cache, replica.running) }),
        }),
      );
    }
    this.#views = this.replicas.map(({ replica }) => replica);
  }

  #checkNothingWaits(): void {
    const { warmup = 0, scheduler } = this.#config;
    for (const { replica, number } of this.replicas)
      if (!replica.isIdle)
        throw new PolicyError(
          `scheduler ${scheduler.name} plans nothing on replica ${number}, where ${replica.waitingCount} requests wait and ${replica.runningCount} run`,
        );
    if (this.arrivals.count === 0) throw new InputError("the trace has no requests");
    if (warmup >= this.arrivals.count)
      throw new InputError(`--warmup is ${warmup}, the trace has only ${this.arrivals.count} requests`);
    assert(this.done === this.arrivals.count, `${this.done} of ${this.arrivals.count} requests came to an end`);
  }
}

const byNumber = (a: SimulatedReplica, b: SimulatedReplica) => a.number - b.number;

/** One trace from beginning to end. */
export function simulate(trace: Trace, config: SimulationConfig, blocks?: BlockColumns): Simulation {
  const simulation = new Simulation(config);
  simulation.feed(trace, blocks);
  simulation.end();
  simulation.run();
  return simulation;
}
