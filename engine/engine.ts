import { audit } from "../core/cache/audit.ts";
import type { KvCache } from "../core/cache/kv-cache.ts";
import type { Request, Sequence } from "../core/cache/request.ts";
import { assert, InputError, PolicyError } from "../core/errors.ts";
import { EventLog } from "../core/log/events.ts";
import { type CacheConfig, createCache, createScheduler, type SchedulerConfig } from "../core/replica/compose.ts";
import { usableBlocksOf } from "../core/replica/replay.ts";
import type { StepItem, StepPlan } from "../core/replica/step.ts";
import { type ArrivalOptions, Arrivals, type TraceBatch } from "../core/serving/arrivals.ts";
import { EventQueue } from "../core/serving/event-queue.ts";
import { TimeSeries } from "../core/serving/time-series.ts";
import { type StepObserver, TimedReplica } from "../core/serving/timed-replica.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import type { Nanos, Trace } from "../core/trace/trace.ts";
import { batchOf } from "./batch.ts";
import type { Clock } from "./clock.ts";
import type { Executor } from "./executor.ts";
import { HostTier } from "./host-tier.ts";
import { type TokenChoice, Tokens } from "./tokens.ts";

export interface EngineConfig extends CacheConfig, SchedulerConfig {
  readonly executor: Executor;
  readonly clock: Clock;
  /** Of the model. */
  readonly vocabulary: number;
  /** What the requests write. */
  readonly choice?: TokenChoice;
  readonly arrivals?: ArrivalOptions;
  readonly hostBlocks?: number;
  readonly warmup?: number;
  readonly events?: boolean;
  readonly audit?: boolean;
  readonly before?: (request: number, cache: KvCache, nowNs: Nanos) => void;
  readonly observer?: StepObserver;
  /**
   * Told of each token as it is written, whether it is the request's last one, and the logits behind it, which are valid only
   * now: undefined if they were stored with the prompt.
   */
  readonly written?: (request: Request, token: number, isLast: boolean, logits: Float32Array | undefined) => void;
}

/**
 * A replica whose steps are run by a model: the serving loop. A step's time is from the end of the one before it (or from the
 * arrival that it had waited for) to its own end, planning and all else included, so that the times add up, and a simulator
 * that is given these durations must decide the same.
 *
 *   arrivals ─▶ replica: plan ─▶ swap out, copy, swap in ─▶ batch ─▶ executor ─▶ logits ─▶ tokens ─▶ commit ─▶ plan …
 */
export class Engine {
  readonly series = new TimeSeries();
  readonly arrivals: Arrivals;
  readonly replica: TimedReplica;
  /** Requests that ended or were refused. */
  done = 0;
  readonly #config: EngineConfig;
  /** Turns that arrive when another one has ended. */
  readonly #turns = new EventQueue();
  readonly #host: HostTier;
  readonly #tokens: Tokens;
  readonly #stop = new AbortController();
  #isWarm = false;

  /** @throws InputError if cache and executor do not have the same blocks, or if what is cached would not be what is written */
  constructor(trace: Trace, columns: BlockColumns, config: EngineConfig) {
    const { executor, blockTokens, blocks, vocabulary } = config;
    if (blockTokens !== executor.blockTokens || blocks === undefined || blocks > executor.blockCount)
      throw new InputError(
        `the cache has ${blocks ?? "unlimited"} blocks of ${blockTokens} tokens, the executor ${executor.blockCount} of ${executor.blockTokens}`,
      );
    checkContents(trace, columns, config);
    this.#config = config;
    this.arrivals = new Arrivals(config.arrivals);
    this.arrivals.feed(trace, columns);
    const log = config.events ? new EventLog() : undefined;
    const future = {
      blocks: columns,
      requestCount: trace.requestCount,
      get usableBlocks() {
        return usableBlocksOf(trace, columns, config);
      },
    };
    const cache = createCache({ ...config, namespaces: columns.plainKeys !== undefined }, log, future);
    cache.countFrom = config.warmup ?? 0;
    this.#host = new HostTier(executor);
    this.#tokens = new Tokens(trace, vocabulary, cache, config.choice);
    this.replica = new TimedReplica({
      number: 0,
      cache,
      log,
      scheduler: createScheduler(config, cache.rules),
      series: this.series,
      hostBlocks: config.hostBlocks ?? 0,
      observer: observing(config.observer, this.#host),
      calls: executor.calls,
      before: config.before,
      audit: config.audit ? (replica) => audit(cache, replica.running) : undefined,
      batchOf: (id) => this.arrivals.batchOf(id),
      ended: (batch, row) => this.#ended(batch, row),
    });
  }

  /** As others see what has been served (`Figures`). */
  get replicas(): readonly TimedReplica[] {
    return [this.replica];
  }

  get nowNs(): Nanos {
    return this.#config.clock.now();
  }

  /** No further step begins; `run` returns when the one under way has ended, or at once if it waits for an arrival. */
  stop(): void {
    this.#stop.abort();
  }

  get #stopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Serves all requests, or those until `stop`. `between` is called after every step. */
  async run(between: () => Promise<void> = async () => {}): Promise<void> {
    const { clock } = this.#config;
    let nowNs = 0;
    while (!this.#stopped) {
      this.#arriveUntil(nowNs);
      const plan = this.replica.beginStep(nowNs);
      if (plan === undefined) {
        nowNs = this.#nextNs;
        if (nowNs === Number.POSITIVE_INFINITY) break;
        await clock.waitUntil(nowNs, this.#stop.signal);
        continue;
      }
      const finished = await this.#execute(plan);
      const endNs = Math.max(clock.now(), nowNs + 1);
      this.#arriveUntil(endNs - 1);
      this.replica.endStep(endNs, finished);
      nowNs = endNs;
      await between();
    }
    if (!this.#stopped) this.#checkAllServed();
    // Nobody has come who is in a figure: what the warm-up did is in none.
    else this.#beginFigures(this.arrivals.count, nowNs);
  }

  get #nextNs(): Nanos {
    return Math.min(this.arrivals.nextNs, this.#turns.nextNs);
  }

  /** Whoever has come by now stands in the queue, at the time at which it came. */
  #arriveUntil(nowNs: Nanos): void {
    for (let atNs = this.#nextNs; atNs <= nowNs; atNs = this.#nextNs) {
      const id = this.#turns.nextNs === atNs ? this.#turns.pop() : this.arrivals.take();
      this.#beginFigures(id, atNs);
      const batch = this.arrivals.batchOf(id);
      const row = id - batch.firstId;
      batch.outcomes.arrivalNs[row] = atNs;
      batch.outcomes.replica[row] = 0;
      this.series.add("arrivals", atNs, 1);
      this.replica.submit(batch.request(row), atNs);
    }
  }

  /** Figures begin with the arrival of the first request that is in them. */
  #beginFigures(id: number, nowNs: Nanos): void {
    if (this.#isWarm || id < (this.#config.warmup ?? 0)) return;
    this.#isWarm = true;
    this.replica.beginMetrics(nowNs);
    this.series.begin(nowNs);
  }

  #ended(batch: TraceBatch, row: number): void {
    this.done++;
    const id = batch.firstId + row;
    const writtenTokens = this.#tokens.ended(id);
    if (this.#tokens.decideEnds) batch.outcomes.outputTokens[row] = writtenTokens;
    this.#host.ended(id);
    this.arrivals.ended(id, batch.outcomes.finishedNs[row], (next, arrivalNs) => this.#turns.push(arrivalNs, next));
  }

  /** Runs a step; returns which items end with it, if their tokens decide that. */
  async #execute(plan: StepPlan): Promise<boolean[] | undefined> {
    const { executor, blockTokens, written } = this.#config;
    await this.#host.moveOut();
    if (plan.copies.length > 0) await executor.copyBlocks(plan.copies);
    await this.#host.moveIn();
    const batch = batchOf(plan, blockTokens, (sequence, from, to, into, at) =>
      this.#tokens.write(sequence, from, to, into, at),
    );
    const logits = new Map<StepItem, Float32Array>();
    if (batch.items.length > 0) {
      const result = await executor.executeStep(batch.step);
      const { vocabulary } = this.#config;
      batch.sampled.forEach((item, i) => {
        logits.set(item, result.logits.subarray(i * vocabulary, (i + 1) * vocabulary));
      });
    }
    const finished: boolean[] = [];
    for (let i = 0; i < plan.count; i++) {
      const item = plan.items[i];
      if (item.generate === 0) continue;
      const { request } = item.sequence;
      const behind = logits.get(item);
      const { token, isLast } = this.#tokens.next(item.sequence, behind);
      finished[i] = isLast;
      written?.(request, token, isLast, behind);
    }
    return this.#tokens.decideEnds ? finished : undefined;
  }

  #checkAllServed(): void {
    const { scheduler } = this.#config;
    const { waitingCount, runningCount, isIdle } = this.replica.replica;
    if (!isIdle)
      throw new PolicyError(
        `scheduler ${scheduler.name} plans nothing while ${waitingCount} requests wait and ${runningCount} run`,
      );
    assert(this.done === this.arrivals.count, `${this.done} of ${this.arrivals.count} requests came to an end`);
  }
}

/** @throws InputError if what the cache takes for stored would not be there */
export function checkContents(
  trace: Trace,
  columns: BlockColumns,
  { index, rules, choice }: Pick<EngineConfig, "index" | "rules" | "choice">,
): void {
  if (rules["full-hit"] === "stored-logits" && index.unit !== "prompt" && !index.none)
    throw new InputError(
      `index ${index.name} finds prompts that nobody had, for which full-hit=stored-logits has no logits`,
    );
  if (columns.generated && trace.optional.generatedKeys && choice?.endTokens)
    throw new InputError(
      "the trace says what is written, and by that cache-generated=true stores it: end tokens cannot decide",
    );
}

/** Somebody who is told of everything, and the host, which is told of what concerns it. */
function observing(observer: StepObserver | undefined, host: HostTier): StepObserver {
  return {
    planned: (...args) => observer?.planned?.(...args),
    steps: (...args) => observer?.steps?.(...args),
    arrived: (...args) => observer?.arrived?.(...args),
    admitted: (...args) => observer?.admitted?.(...args),
    firstToken: (...args) => observer?.firstToken?.(...args),
    ended: (...args) => observer?.ended?.(...args),
    swappedOut: (sequence: Sequence, tokens) => host.swappedOut(sequence, tokens),
    swappedIn: (sequence: Sequence, tokens) => host.swappedIn(sequence, tokens),
  };
}
