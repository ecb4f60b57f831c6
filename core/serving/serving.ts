import { audit } from "../cache/audit.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import type { Request } from "../cache/request.ts";
import { assert, InputError, PolicyError } from "../errors.ts";
import { EventLog } from "../log/event-log.ts";
import type { FutureView, Router } from "../plugins/index.ts";
import {
  blockKeysFor,
  type CacheConfig,
  createCache,
  createScheduler,
  type SchedulerConfig,
} from "../replica/compose.ts";
import { usableBlocksOf } from "../replica/replay.ts";
import type { Speculation } from "../replica/speculation.ts";
import type { BlockColumns, BlockKeys } from "../trace/content.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { type ArrivalOptions, Arrivals, type TraceBatch } from "./arrivals.ts";
import { Disaggregation, type DisaggregationConfig, type TransferTable } from "./disaggregation.ts";
import { EventQueue } from "./event-queue.ts";
import { Network, type RoundTrips } from "./network.ts";
import { fanOut, type StepObserver } from "./observers.ts";
import type { Outcomes } from "./outcomes.ts";
import { ReplicaList } from "./replica-list.ts";
import type { StepLoadExtension } from "./step-load.ts";
import { TimeSeries } from "./time-series.ts";
import { type DisaggregatedListener, TimedReplica } from "./timed-replica.ts";

/** The options that virtual and real time share. */
export interface ServingConfig extends CacheConfig, SchedulerConfig {
  readonly replicas?: number;
  /** Absent: the first replica gets every request. */
  readonly router?: Router | undefined;
  readonly arrivals?: ArrivalOptions;
  /** Latency between clients, router and replicas; absent: none. */
  readonly network?: RoundTrips | undefined;
  /** Prefill and decode on separate replicas; `router` then chooses among the prefill replicas. */
  readonly disaggregation?: DisaggregationConfig | undefined;
  /** Replicas begin and end their steps together, because they share the experts of a model. */
  readonly lockstep?: boolean;
  /** Speculative decoding; absent: one token per decode. */
  readonly speculation?: Speculation | undefined;
  /** Host memory for swapped sequences, in blocks per replica. */
  readonly hostBlocks?: number;
  /** Leading requests that are served but in no metric. */
  readonly warmup?: number;
  /** Keep an event log of every replica. */
  readonly events?: boolean;
  /** Check every invariant in full after every plan and every commit; slow. */
  readonly audit?: boolean;
  /** Called before each request is submitted, for an operator's operations on the cache. */
  readonly before?: (request: number, cache: KvCache, nowNs: Nanos) => void;
  readonly observers?: readonly StepObserver[];
  /** Receives the outcomes of requests in batches, in the order of the trace; see `Arrivals`. */
  readonly sink?: ((outcomes: Outcomes) => void) | undefined;
}

/** Runs the steps of one replica, in virtual or real time. It observes that replica before all other observers. */
export interface StepRunner extends StepObserver {
  /** The attention window of sliding-window layers; undefined if no layer has one. */
  readonly windowTokens?: number | undefined;
  /** Loads that depend on the backend, if step times depend on them. */
  readonly calls?: StepLoadExtension | undefined;
  /** Output tokens decide when a request finishes, rather than the trace's output length. */
  readonly decidesEnds?: boolean;
  /**
   * Plans and starts the next step, or several repeated ones that end by `horizonNs`, before which no request arrives. Returns
   * the time at which it ends; undefined if the plan is empty, or if only running the step shows when it ends.
   */
  start(replica: TimedReplica, nowNs: Nanos, horizonNs: Nanos): Nanos | undefined;
  /** With `lockstep`: plans and starts the next step of all replicas; returns when it ends, undefined if all plans are empty. */
  startTogether?(replicas: readonly TimedReplica[], nowNs: Nanos): Nanos | undefined;
}

/** A message between client, router and replicas about one request, delivered after the latency of its network or link. */
const Message = {
  ...{ toRouter: 0, toReplica: 1, endToRouter: 2, endToClient: 3 },
  ...{ prefilledToRouter: 4, toDecodeReplica: 5, transferStart: 6, transferEnd: 7, release: 8 },
} as const;
type Message = (typeof Message)[keyof typeof Message];
/** Above the number of kinds of messages. */
const messageKinds = 16;

/**
 * The serving loop of simulator and engine. Everything happens in the order of time, and at one time in this order: steps end
 * (`endSteps`), messages are delivered, requests arrive and are routed (`arriveUntil`), steps start (`startSteps`); of several
 * replicas the one with the lowest number first. A subclass moves the time and calls these three methods; its runners say how long steps take.
 *
 *   trace ─▶ arrivals ─▶ router ─▶ replica: plan ─▶ runner ─▶ commit ─▶ plan …
 */
export abstract class Serving<Runner extends StepRunner> {
  readonly series = new TimeSeries();
  readonly arrivals: Arrivals;
  readonly replicas: TimedReplica[] = [];
  /** Requests that have finished or were refused. */
  done = 0;
  /** One for each replica. */
  protected readonly runners: Runner[] = [];
  readonly #config: ServingConfig;
  readonly #newRunner: (replica: number, cache: KvCache) => Runner;
  /** Ends of steps, by replica. */
  readonly #steps = new EventQueue();
  /** Turns whose think time has begun, by request: the closed loop. */
  readonly #turns = new EventQueue();
  /** Messages in a network: request · `messageKinds` + kind. */
  readonly #messages = new EventQueue();
  readonly #network: Network | undefined;
  readonly #disaggregation: Disaggregation | undefined;
  /** With disaggregation: requests with a first token that no decode replica has admitted or refused. */
  readonly #fetching = new Set<number>();
  /** Replicas that may plan a step now. */
  readonly #ready = new ReplicaList();
  /** Replicas whose step ends now. */
  readonly #stepped = new ReplicaList();
  /** The replicas that the router chooses from, and with disaggregation those of the decode router. */
  #views: readonly TimedReplica["replica"][] = [];
  #decodeViews: readonly TimedReplica["replica"][] = [];
  #keys: BlockKeys | undefined;
  #isWarm = false;

  constructor(config: ServingConfig, newRunner: (replica: number, cache: KvCache) => Runner) {
    this.#config = config;
    this.#newRunner = newRunner;
    // Which contents several replicas have cached is found by matching the prompts of ended requests.
    const { arrivals, replicas = 1, network, sink } = config;
    this.arrivals = new Arrivals(arrivals, replicas > 1, network !== undefined, sink);
    this.#network = config.network && new Network(config.network);
    this.#disaggregation = config.disaggregation && new Disaggregation(config.disaggregation, config.replicas ?? 1);
  }

  /** Delay between a replica and the client. */
  get returnNs(): Nanos {
    return this.#network?.returnNs ?? 0;
  }

  /** Transfers between replicas; undefined without disaggregation. */
  get transfers(): TransferTable | undefined {
    return this.#disaggregation?.transfers;
  }

  /** Adds requests. Policies that read the future read the first trace only, so that it must then be the whole one. */
  feed(trace: Trace, blocks?: BlockColumns): void {
    const columns = blocks ?? (this.#keys ??= blockKeysFor(this.#config, trace.unitTokens)).of(trace);
    if (this.replicas.length === 0) this.#createReplicas(trace, columns);
    this.arrivals.feed(trace, columns);
  }

  /** Time of the next arrival, message or end of a step; infinite if there is none. */
  protected get nextNs(): Nanos {
    return Math.min(this.arrivals.nextNs, this.#turns.nextNs, this.#steps.nextNs, this.#messages.nextNs);
  }

  /** Whether a replica may plan a step at the present time. */
  protected get isReady(): boolean {
    return this.#ready.count > 0;
  }

  /** Ends the steps that end at `nowNs`. */
  protected endSteps(nowNs: Nanos): void {
    if (this.#steps.nextNs !== nowNs) return;
    const stepped = this.#stepped;
    while (this.#steps.nextNs === nowNs) stepped.add(this.replicas[this.#steps.pop()]);
    for (let i = 0; i < stepped.count; i++) this.endStep(stepped.at(i), nowNs);
    stepped.clear();
  }

  /** Ends a replica's step; `finished` as in `StepResult`. */
  protected endStep(replica: TimedReplica, nowNs: Nanos, finished?: readonly boolean[]): void {
    replica.endStep(nowNs, finished);
    this.#ready.add(replica);
  }

  /** Delivers messages and submits the requests that arrive until `nowNs`, that time included, each at its own time. */
  protected arriveUntil(nowNs: Nanos): void {
    const { arrivals } = this;
    const turns = this.#turns;
    const messages = this.#messages;
    for (;;) {
      const atNs = Math.min(arrivals.nextNs, turns.nextNs, messages.nextNs);
      if (atNs > nowNs || atNs === Number.POSITIVE_INFINITY) return;
      if (messages.nextNs === atNs) this.#deliver(messages.pop(), atNs);
      else this.#arrive(turns.nextNs === atNs ? turns.pop() : arrivals.take(), atNs);
    }
  }

  /** Starts the next step of every replica that may plan one. */
  protected startSteps(nowNs: Nanos): void {
    const ready = this.#ready;
    if (this.#config.lockstep && ready.count > 0) {
      this.#startTogether(nowNs);
      return;
    }
    for (let i = 0; i < ready.count; i++) {
      const replica = ready.at(i);
      const { number } = replica;
      const endNs = this.runners[number].start(replica, nowNs, this.#horizonNs(nowNs, i === ready.count - 1));
      if (endNs !== undefined) this.#steps.push(endNs, number);
    }
    ready.clear();
  }

  /** Replicas that become ready during a step of the others begin with the next one. */
  #startTogether(nowNs: Nanos): void {
    const { replicas } = this;
    this.#ready.clear();
    if (replicas.some(({ isBusy }) => isBusy)) return;
    const endNs = this.runners[0].startTogether!(replicas, nowNs);
    if (endNs === undefined) return;
    for (const { isBusy, number } of replicas) if (isBusy) this.#steps.push(endNs, number);
  }

  /** Metrics begin with the arrival of the first measured request. */
  protected beginMetrics(nowNs: Nanos): void {
    if (this.#isWarm) return;
    this.#isWarm = true;
    for (const replica of this.replicas) replica.beginMetrics(nowNs);
    this.series.begin(nowNs);
  }

  /** @throws PolicyError if requests wait or run; InputError if no request is measured */
  protected checkAllServed(): void {
    const { warmup = 0, scheduler } = this.#config;
    for (const { replica, number } of this.replicas)
      if (!replica.isIdle)
        throw new PolicyError(
          `scheduler ${scheduler.name} plans nothing on replica ${number}, where ${replica.waitingCount} requests wait and ${replica.runningCount} run`,
        );
    const { count } = this.arrivals;
    if (count === 0) throw new InputError("the trace has no requests");
    if (warmup >= count) throw new InputError(`--warmup is ${warmup}, the trace has only ${count} requests`);
    assert(this.done === count, `${this.done} of ${count} requests have ended`);
  }

  /** The client sends the request. */
  #arrive(id: number, nowNs: Nanos): void {
    const { warmup = 0 } = this.#config;
    if (id >= warmup) this.beginMetrics(nowNs);
    const batch = this.arrivals.batchOf(id);
    batch.sent(id - batch.firstId, nowNs);
    this.series.add("arrivals", nowNs, 1);
    if (this.#network) this.#send(Message.toRouter, id, nowNs + this.#network.toRouterNs);
    else this.#route(id, nowNs);
  }

  #send(kind: Message, id: number, atNs: Nanos): void {
    this.#messages.push(atNs, id * messageKinds + kind);
  }

  #deliver(message: number, nowNs: Nanos): void {
    const kind = (message % messageKinds) as Message;
    const id = (message - kind) / messageKinds;
    switch (kind) {
      case Message.toRouter:
        this.#route(id, nowNs);
        return;
      case Message.toReplica:
        this.#submit(id, nowNs);
        return;
      case Message.endToRouter:
        this.#notifyRouter(id, nowNs);
        this.#send(Message.endToClient, id, nowNs + this.#network!.toClientNs);
        return;
      case Message.endToClient:
        this.#notifyClient(id, nowNs);
        return;
      case Message.prefilledToRouter:
        this.#routeDecode(id, nowNs);
        return;
      case Message.toDecodeReplica:
        this.#submitPrefilled(id, nowNs);
        return;
      case Message.transferStart:
        this.#beginTransfer(id, nowNs);
        return;
      case Message.transferEnd:
        this.#endTransfer(id, nowNs);
        return;
      case Message.release:
        this.#releasePrefilled(id, nowNs);
        return;
    }
  }

  /** The router chooses the replica of the request. */
  #route(id: number, nowNs: Nanos): void {
    const { router } = this.#config;
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    batch.received(row, nowNs);
    const number = router?.route(this.#prefillRequest(batch, row), this.#views, nowNs) ?? 0;
    checkRoute(number, this.#views.length);
    batch.outcomes.replica[row] = number;
    if (this.#network) this.#send(Message.toReplica, id, nowNs + this.#network.toReplicaNs);
    else this.#submit(id, nowNs);
  }

  /** The request arrives at its replica. */
  #submit(id: number, nowNs: Nanos): void {
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    batch.received(row, nowNs);
    const replica = this.replicas[batch.outcomes.replica[row]];
    replica.submit(this.#prefillRequest(batch, row), nowNs);
    if (!replica.isBusy) this.#ready.add(replica);
  }

  /** The request as the replica gets it that computes its prompt. */
  #prefillRequest(batch: TraceBatch, row: number): Request {
    return this.#disaggregation ? batch.prefillRequest(row) : batch.request(row);
  }

  /** The router has been notified of a first token, and chooses the decode replica. */
  #routeDecode(id: number, nowNs: Nanos): void {
    const { decodeRouter, prefillReplicas } = this.#config.disaggregation!;
    const batch = this.arrivals.batchOf(id);
    this.#notifyRouter(id, nowNs);
    const number = decodeRouter?.route(batch.request(id - batch.firstId), this.#decodeViews, nowNs) ?? 0;
    checkRoute(number, this.#decodeViews.length);
    this.#disaggregation!.assign(id, prefillReplicas + number);
    this.#send(Message.toDecodeReplica, id, nowNs + (this.#network?.toReplicaNs ?? 0));
  }

  #submitPrefilled(id: number, nowNs: Nanos): void {
    const batch = this.arrivals.batchOf(id);
    const replica = this.#decodeReplicaOf(id);
    replica.submitPrefilled(batch.request(id - batch.firstId), nowNs);
    if (!replica.isBusy) this.#ready.add(replica);
  }

  #beginTransfer(id: number, nowNs: Nanos): void {
    const { transfers } = this.#disaggregation!;
    const row = this.#disaggregation!.rowOf(id);
    this.replicas[transfers.from[row]].replica.sends(id, transfers.tokens[row], nowNs);
    this.#send(Message.transferEnd, id, transfers.endNs[row]);
  }

  #endTransfer(id: number, nowNs: Nanos): void {
    this.#disaggregation!.transferred(id);
    this.#releasePrefilled(id, nowNs);
    const replica = this.#decodeReplicaOf(id);
    replica.received(id, nowNs);
    if (!replica.isBusy) this.#ready.add(replica);
  }

  /** The prefill replica releases the blocks of the request. */
  #releasePrefilled(id: number, nowNs: Nanos): void {
    const batch = this.arrivals.batchOf(id);
    const replica = this.replicas[batch.outcomes.replica[id - batch.firstId]];
    replica.release(id, nowNs);
    if (!replica.isBusy) this.#ready.add(replica);
  }

  #decodeReplicaOf(id: number): TimedReplica {
    const number = this.#disaggregation!.decodeReplicaOf(id);
    assert(number !== undefined, "a request has no decode replica");
    return this.replicas[number];
  }

  /**
   * The earliest time of the next arrival or message. In a closed loop and with disaggregation, a step
   * that ends on another replica may cause one.
   */
  #horizonNs(nowNs: Nanos, areOthersStarted: boolean): Nanos {
    const isOpen = !this.arrivals.isClosed && this.#disaggregation === undefined;
    if (isOpen) return Math.min(this.arrivals.nextNs, this.#messages.nextNs);
    return areOthersStarted ? this.nextNs : nowNs;
  }

  /** A request has finished on its replica, or was refused there. */
  #ended(batch: TraceBatch, row: number, nowNs: Nanos): void {
    const id = batch.firstId + row;
    const decoded = this.#disaggregation?.decodeReplicaOf(id);
    // Refused before its transfer.
    if (decoded !== undefined && this.#fetching.delete(id)) this.#send(Message.release, id, nowNs);
    if (this.#network) {
      this.#send(Message.endToRouter, id, nowNs + this.#network.fromReplicaNs);
      return;
    }
    this.#notifyRouter(id, nowNs);
    this.#notifyClient(id, nowNs);
  }

  /** Notifies the router of an end: of the prefill, or of the request on its decode replica or its only replica. */
  #notifyRouter(id: number, nowNs: Nanos): void {
    const { router, disaggregation } = this.#config;
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    const decoded = this.#disaggregation?.decodeReplicaOf(id);
    if (decoded === undefined) {
      router?.finished?.(this.#prefillRequest(batch, row), batch.outcomes.replica[row], nowNs);
    } else {
      disaggregation!.decodeRouter?.finished?.(batch.request(row), decoded - disaggregation!.prefillReplicas, nowNs);
      this.#disaggregation!.ended(id);
    }
  }

  #notifyClient(id: number, nowNs: Nanos): void {
    this.done++;
    this.arrivals.ended(id, nowNs, this.#wake);
  }

  readonly #wake = (id: number, arrivalNs: Nanos) => this.#turns.push(arrivalNs, id);

  #createReplicas(trace: Trace, blocks: BlockColumns): void {
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
      const runner = this.#newRunner(number, cache);
      this.runners.push(runner);
      this.replicas.push(
        new TimedReplica({
          number,
          cache,
          log,
          scheduler: createScheduler(config, cache.rules, number),
          series: this.series,
          hostBlocks: config.hostBlocks ?? 0,
          returnNs: this.returnNs,
          speculation: config.speculation,
          windowTokens: runner.windowTokens,
          calls: runner.calls,
          decidesEnds: runner.decidesEnds ?? false,
          observer: fanOut([runner, ...(config.observers ?? [])]),
          before: config.before,
          audit: config.audit ? (replica) => audit(cache, replica.referencing()) : undefined,
          batchOf: (id) => this.arrivals.batchOf(id),
          ended: (batch, row, nowNs) => this.#ended(batch, row, nowNs),
          disaggregated: this.#disaggregated(number),
        }),
      );
    }
    const views = this.replicas.map(({ replica }) => replica);
    const prefillReplicas = config.disaggregation?.prefillReplicas ?? views.length;
    this.#views = views.slice(0, prefillReplicas);
    this.#decodeViews = views.slice(prefillReplicas);
  }

  #disaggregated(replica: number): DisaggregatedListener | undefined {
    const disaggregation = this.#disaggregation;
    if (disaggregation === undefined) return undefined;
    return {
      isPrefill: disaggregation.isPrefill(replica),
      prefilled: (id, nowNs) => {
        this.#fetching.add(id);
        this.#send(Message.prefilledToRouter, id, nowNs + (this.#network?.fromReplicaNs ?? 0));
      },
      fetches: (id, tokens, cachedTokens, nowNs) => {
        this.#fetching.delete(id);
        if (tokens === 0) {
          this.#send(Message.release, id, nowNs);
          return;
        }
        const { outcomes, firstId } = this.arrivals.batchOf(id);
        const row = disaggregation.queue(id, outcomes.replica[id - firstId], replica, tokens, cachedTokens, nowNs);
        this.#send(Message.transferStart, id, disaggregation.transfers.startNs[row]);
      },
    };
  }
}

function checkRoute(number: number, replicas: number): void {
  if (Number.isInteger(number) && number >= 0 && number < replicas) return;
  throw new PolicyError(`the router chose replica ${number} of ${replicas}`);
}
