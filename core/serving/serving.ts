import { audit } from "../cache/audit.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import type { Request } from "../cache/request.ts";
import { assert, InputError, PolicyError } from "../errors.ts";
import { EventLog } from "../log/event-log.ts";
import type { FutureView } from "../plugins/index.ts";
import { blockKeysFor, createCache, createScheduler } from "../replica/compose.ts";
import { usableBlocksOf } from "../replica/replay.ts";
import type { BlockColumns, BlockKeys } from "../trace/content.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { Arrivals, type TraceBatch } from "./arrivals.ts";
import type { TransferTable } from "./disaggregation.ts";
import { EventQueue } from "./event-queue.ts";
import { Message, Messages } from "./messages.ts";
import { Network } from "./network.ts";
import { fanOut } from "./observers.ts";
import { PrefilledRequests } from "./prefilled-requests.ts";
import { ReplicaList } from "./replica-list.ts";
import { checkRoute } from "./routing.ts";
import type { ServingConfig } from "./serving-config.ts";
import type { StepRunner } from "./step-runner.ts";
import { TimeSeries } from "./time-series.ts";
import { TimedReplica } from "./timed-replica.ts";

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
  readonly #messages = new Messages();
  readonly #network: Network | undefined;
  readonly #prefilled: PrefilledRequests | undefined;
  /** Replicas that may plan a step now. */
  readonly #ready = new ReplicaList();
  /** Replicas whose step ends now. */
  readonly #stepped = new ReplicaList();
  /** The replicas that the router chooses from; with disaggregation the prefill replicas. */
  #views: readonly TimedReplica["replica"][] = [];
  #keys: BlockKeys | undefined;
  #isWarm = false;

  constructor(config: ServingConfig, newRunner: (replica: number, cache: KvCache) => Runner) {
    this.#config = config;
    this.#newRunner = newRunner;
    // Which contents several replicas have cached is found by matching all prompts when the run has ended.
    const keepsContents = (config.replicas ?? 1) > 1 && config.sink === undefined;
    this.arrivals = new Arrivals(
      config.arrivals,
      keepsContents,
      config.network !== undefined,
      config.sink,
      config.forgets,
    );
    this.#network = config.network && new Network(config.network);
    const { arrivals, replicas } = this;
    this.#prefilled =
      config.disaggregation &&
      new PrefilledRequests(config.disaggregation, config.replicas ?? 1, {
        ...{ arrivals, replicas, messages: this.#messages, network: this.#network },
        changed: (replica) => this.#changed(replica),
        notifyRouter: (id, nowNs) => this.#notifyRouter(id, nowNs),
      });
  }

  /** Delay between a replica and the client. */
  get returnNs(): Nanos {
    return this.#network?.returnNs ?? 0;
  }

  /** Transfers between replicas; undefined without disaggregation. */
  get transfers(): TransferTable | undefined {
    return this.#prefilled?.transfers;
  }

  /** Adds requests. Policies that read the future without `future` read the first trace only, which must then be the whole one. */
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
      if (atNs > nowNs || atNs === Number.POSITIVE_INFINITY || arrivals.lacksTurns) return;
      if (messages.nextNs === atNs) messages.deliver((kind, id) => this.#deliver(kind, id, atNs));
      else this.#arrive(turns.nextNs === atNs ? turns.pop() : arrivals.take(), atNs);
    }
  }

  /** Ends a request that its client has cancelled, between two steps. False if it neither waits nor runs on the replica. */
  protected cancelRequest(replica: TimedReplica, request: number, nowNs: Nanos): boolean {
    if (!replica.cancel(request, nowNs)) return false;
    this.#changed(replica);
    return true;
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
      const horizonNs = this.#horizonNs(nowNs, i === ready.count - 1);
      let endNs: Nanos | undefined;
      do {
        endNs = this.runners[number].start(replica, nowNs, horizonNs);
        if (endNs !== undefined) this.#steps.push(endNs, number);
      } while (endNs !== undefined && !replica.isBusy);
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
    const { warmup = 0 } = this.#config;
    this.checkIdle();
    const { count } = this.arrivals;
    if (count === 0) throw new InputError("the trace has no requests");
    if (warmup >= count) throw new InputError(`--warmup is ${warmup}, the trace has only ${count} requests`);
    assert(this.done === count, `${this.done} of ${count} requests have ended`);
  }

  /** Adds the levels of all replicas that this run serves to the series. */
  protected addLevelsUntil(nowNs: Nanos): void {
    const { serves } = this.#config;
    for (const replica of this.replicas) if (serves?.(replica.number) !== false) replica.addLevelsUntil(nowNs);
  }

  /** @throws PolicyError if requests wait or run */
  protected checkIdle(): void {
    const { scheduler } = this.#config;
    for (const { replica, number } of this.replicas)
      if (!replica.isIdle)
        throw new PolicyError(
          `scheduler ${scheduler.name} plans nothing on replica ${number}, where ${replica.waitingCount} requests wait and ${replica.runningCount} run`,
        );
  }

  /** The client sends the request. */
  #arrive(id: number, nowNs: Nanos): void {
    const { warmup = 0 } = this.#config;
    if (id >= warmup) this.beginMetrics(nowNs);
    const batch = this.arrivals.batchOf(id);
    batch.sent(id - batch.firstId, nowNs);
    this.series.add(this.series.counts.arrivals, nowNs, 1);
    if (this.#network) this.#messages.send(Message.toRouter, id, nowNs + this.#network.toRouterNs);
    else this.#route(id, nowNs);
  }

  #deliver(kind: Message, id: number, nowNs: Nanos): void {
    switch (kind) {
      case Message.toRouter:
        this.#route(id, nowNs);
        return;
      case Message.toReplica:
        this.#submit(id, nowNs);
        return;
      case Message.endToRouter:
        this.#notifyRouter(id, nowNs);
        this.#messages.send(Message.endToClient, id, nowNs + this.#network!.toClientNs);
        return;
      case Message.endToClient:
        this.#notifyClient(id, nowNs);
        return;
      default:
        this.#prefilled!.deliver(kind, id, nowNs);
    }
  }

  /** The router chooses the replica of the request. */
  #route(id: number, nowNs: Nanos): void {
    const { router } = this.#config;
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    batch.received(row, nowNs);
    for (const replica of this.replicas) replica.expireUntil(nowNs);
    const number = router?.route(this.#prefillRequest(batch, row), this.#views, nowNs) ?? 0;
    checkRoute(number, this.#views.length);
    batch.outcomes.replica[row] = number;
    if (this.#config.serves?.(number) === false) this.#notifyClient(id, nowNs);
    else if (this.#network) this.#messages.send(Message.toReplica, id, nowNs + this.#network.toReplicaNs);
    else this.#submit(id, nowNs);
  }

  /** The request arrives at its replica. */
  #submit(id: number, nowNs: Nanos): void {
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    batch.received(row, nowNs);
    const replica = this.replicas[batch.outcomes.replica[row]];
    replica.submit(this.#prefillRequest(batch, row), nowNs);
    this.#changed(replica);
  }

  /** The request as the replica gets it that computes its prompt. */
  #prefillRequest(batch: TraceBatch, row: number): Request {
    return this.#prefilled ? batch.prefillRequest(row) : batch.request(row);
  }

  /** The replica may plan a step if none runs. */
  #changed(replica: TimedReplica): void {
    if (!replica.isBusy) this.#ready.add(replica);
  }

  /**
   * The earliest time of the next arrival or message. In a closed loop and with disaggregation, a step
   * that ends on another replica may cause one.
   */
  #horizonNs(nowNs: Nanos, areOthersStarted: boolean): Nanos {
    const isOpen = !this.arrivals.isClosed && this.#prefilled === undefined;
    if (isOpen) return Math.min(this.arrivals.nextNs, this.#messages.nextNs);
    return areOthersStarted ? this.nextNs : nowNs;
  }

  /** A request has finished on its replica, or was refused there. */
  #ended(batch: TraceBatch, row: number, nowNs: Nanos): void {
    const id = batch.firstId + row;
    this.#prefilled?.ended(id, nowNs);
    if (this.#network) {
      this.#messages.send(Message.endToRouter, id, nowNs + this.#network.fromReplicaNs);
      return;
    }
    this.#notifyRouter(id, nowNs);
    this.#notifyClient(id, nowNs);
  }

  /** Notifies the router of an end: of the prefill, or of the request on its decode replica or its only replica. */
  #notifyRouter(id: number, nowNs: Nanos): void {
    if (this.#prefilled?.notifyDecodeRouter(id, nowNs)) return;
    const batch = this.arrivals.batchOf(id);
    const row = id - batch.firstId;
    this.#config.router?.finished?.(this.#prefillRequest(batch, row), batch.outcomes.replica[row], nowNs);
  }

  #notifyClient(id: number, nowNs: Nanos): void {
    this.done++;
    this.arrivals.ended(id, nowNs, this.#wake);
  }

  readonly #wake = (id: number, arrivalNs: Nanos) => this.#turns.push(arrivalNs, id);

  #createReplicas(trace: Trace, blocks: BlockColumns): void {
    const config = this.#config;
    const future: FutureView = config.future ?? {
      blocks,
      requestCount: trace.requestCount,
      get usableBlocks() {
        return usableBlocksOf(trace, blocks, config);
      },
    };
    for (let number = 0; number < (config.replicas ?? 1); number++) {
      const log = config.events ? new EventLog() : undefined;
      const cache = createCache({ ...config, namespaces: blocks.plainKeys !== undefined }, log, future);
      if (config.disaggregation && cache.sessions.haveListener)
        throw new InputError(
          `eviction policy ${config.eviction.name} uses signals about sessions, which separate prefill and decode replicas do not support`,
        );
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
          batchesInFlight: runner.batchesInFlight ?? 1,
          calls: runner.calls,
          decidesEnds: runner.decidesEnds ?? false,
          observer: fanOut([runner, ...(config.observers ?? [])]),
          before: config.before,
          audit: config.audit ? (replica) => audit(cache, replica.referencing()) : undefined,
          batchOf: (id) => this.arrivals.batchOf(id),
          ended: (batch, row, nowNs) => this.#ended(batch, row, nowNs),
          disaggregated: this.#prefilled?.listener(number),
        }),
      );
    }
    const views = this.replicas.map(({ replica }) => replica);
    this.#views = views.slice(0, config.disaggregation?.prefillReplicas);
  }
}
