import { audit } from "../cache/audit.ts";
import type { KvCache } from "../cache/kv-cache.ts";
import { usableBlocks } from "../cache/lookup.ts";
import { Request } from "../cache/request.ts";
import { assert, InputError } from "../errors.ts";
import { EventLog } from "../log/event-log.ts";
import type { FutureView, SchedulerPlugin } from "../plugins/index.ts";
import type { BlockColumns, BlockKeys } from "../trace/content.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { blockKeysFor, type CacheConfig, createCache, createScheduler, rulesFor } from "./compose.ts";
import { Replica } from "./replica.ts";
import type { StepResult } from "./step.ts";

export interface ReplayConfig extends CacheConfig {
  readonly scheduler: SchedulerPlugin;
  /** Options of the scheduler that differ from the defaults. */
  readonly schedulerOptions?: Readonly<Record<string, number>> | undefined;
  /** Leading requests that are served but in no metric. */
  readonly warmup?: number;
  /** Keep an event log. */
  readonly events?: boolean;
  /** Called before each request is served: for operator-initiated operations. */
  readonly before?: (request: number, cache: KvCache, nowNs: Nanos) => void;
  /** Check every invariant in full after every step; slow. */
  readonly audit?: boolean;
  /**
   * `step`: output tokens are generated one per step, with blocks allocated as needed, as on every other target. Default:
   * `skip`.
   */
  readonly generation?: "skip" | "step";
}

/** The outcome of each request, in order of arrival. */
export interface RequestResults {
  readonly arrivalNs: Float64Array;
  readonly inputTokens: Uint32Array;
  readonly outputTokens: Uint32Array;
  readonly promptBlocks: Uint32Array;
  /** Ids of sessions; 0: none. */
  readonly session: Uint32Array;
  readonly hitBlocks: Uint32Array;
  readonly hitTokens: Uint32Array;
  readonly refused: Uint8Array;
}

/** Receives the results of one batch after the other, each when its last request has been replayed. */
export type ResultSink = (results: RequestResults) => void;

export interface ReplayEnd {
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
}

export interface ReplayResult extends ReplayEnd {
  readonly requests: RequestResults;
}

/** A trace, or a batch of one, whose rows are being replayed. */
interface Batch {
  readonly trace: Trace;
  readonly columns: BlockColumns;
  readonly results: RequestResults;
  /** Rows before this one have been replayed. */
  fedTo: number;
}

/** There is no clock: a step takes no time. Only where the policy reads times, requests have their arrival times. */
const noTime: StepResult = { durationNs: 0 };

/**
 * A replay without a clock: every request is served to its end before the next one is submitted, by the same replica code
 * that the simulator and the engine run. `feed` is called with a whole trace, or with one batch after the other.
 */
export class CacheReplay {
  readonly #config: ReplayConfig;
  readonly #sink: ResultSink | undefined;
  #keys: BlockKeys | undefined;
  #replica: Replica | undefined;
  #log: EventLog | undefined;
  #fed = 0;
  #current: Batch | undefined;
  #givenBlocks: boolean | undefined;
  readonly #results: RequestResults[] = [];

  /** With a `sink`, the results of a batch are passed to it and not kept: memory does not grow with the trace. */
  constructor(config: ReplayConfig, sink?: ResultSink) {
    this.#config = config;
    this.#sink = sink;
  }

  /** Content ids of a trace's blocks, an argument of `feed`: for callers that replay one trace more than once. */
  static blockKeys(config: ReplayConfig, trace: Trace): BlockColumns {
    return blockKeysFor(config, trace.unitTokens).of(trace);
  }

  /**
   * Replays rows `[from, to)` of a trace or batch. All rows are fed in order. Policies that read the future without `future` see
   * the first trace or batch only; with them it must be the whole trace.
   */
  feed(trace: Trace, blocks?: BlockColumns, from = 0, to = trace.requestCount): void {
    if (this.#current?.trace !== trace) {
      assert(from === 0, "a trace is fed from its middle");
      this.#givenBlocks ??= blocks !== undefined;
      assert(this.#givenBlocks === (blocks !== undefined), "content ids are given for one batch and not for the next");
      this.#endBatch();
      const columns = blocks ?? (this.#keys ??= blockKeysFor(this.#config, trace.unitTokens)).of(trace);
      this.#replica ??= this.#start(trace, columns);
      this.#current = { trace, columns, results: newResults(trace, columns), fedTo: 0 };
    }
    assert(from === this.#current.fedTo, "rows of a trace are fed out of order");
    this.#current.fedTo = to;
    const { columns, results } = this.#current;
    const replica = this.#replica!;
    const cache = replica.cache;
    const { audit: audited, before, warmup = 0 } = this.#config;
    const request = new Request(this.#fed, trace, 0, columns);
    for (let row = from; row < to; row++) {
      const id = this.#fed++;
      if (id === warmup && id > 0) cache.beginMetrics();
      const now = cache.readsTimes ? trace.arrivalNs[row] : 0;
      before?.(id, cache, now);
      const { refusedRequests } = cache.counters;
      const sequence = replica.submit(request.reset(id, row), now);
      let plan = replica.plan(now);
      if (!plan.isEmpty) {
        results.hitBlocks[row] = sequence.cachedBlocks;
        results.hitTokens[row] = sequence.cachedTokens;
      }
      // One step, unless the scheduler computes prompts in chunks.
      for (; !plan.isEmpty; plan = replica.plan(now)) {
        if (audited) audit(cache, replica.running);
        replica.commit(plan, noTime, now);
        if (replica.isIdle) break;
      }
      if (cache.counters.refusedRequests > refusedRequests) results.refused[row] = 1;
      if (audited) audit(cache, replica.running);
      assert(replica.isIdle, "a request has not ended in a replay without a clock");
    }
  }

  /** Undefined before the first request. */
  get cache(): KvCache | undefined {
    return this.#replica?.cache;
  }

  /** The log so far; undefined without one, and before the first request. */
  get log(): EventLog | undefined {
    return this.#log;
  }

  /**
   * Ends the replay.
   *
   * @throws InputError if there was no request, or none is left after the warm-up
   */
  end(): ReplayEnd {
    const { warmup = 0 } = this.#config;
    if (!this.#replica) throw new InputError("the trace has no requests");
    if (warmup >= this.#fed) throw new InputError(`--warmup is ${warmup}, the trace has only ${this.#fed} requests`);
    if (this.#sink) this.#endBatch();
    return { cache: this.#replica.cache, log: this.#log };
  }

  /** The results so far, of a replay without a `sink`. @throws as `end` */
  result(): ReplayResult {
    assert(this.#sink === undefined, "the results were passed to a sink");
    const end = this.end();
    return { ...end, requests: joined([...this.#results, fedRows(this.#current!)]) };
  }

  /** Passes on or keeps the results of the current batch. */
  #endBatch(): void {
    if (this.#current === undefined) return;
    const results = fedRows(this.#current);
    this.#current = undefined;
    if (this.#sink) this.#sink(results);
    else this.#results.push(results);
  }

  #start(trace: Trace, blocks: BlockColumns): Replica {
    const config = this.#config;
    this.#log = config.events ? new EventLog() : undefined;
    const future: FutureView = config.future ?? {
      blocks,
      requestCount: trace.requestCount,
      get usableBlocks() {
        return usableBlocksOf(trace, blocks, config);
      },
    };
    const cache = createCache({ ...config, namespaces: blocks.plainKeys !== undefined }, this.#log, future);
    const scheduler = createScheduler(config, cache.rules);
    return new Replica({ cache, scheduler, log: this.#log, generation: config.generation ?? "skip" });
  }
}

/** By request: prompt blocks that can be hits; 0 if the cache is too small for the request. */
export function usableBlocksOf(
  trace: Trace,
  { promptBlocks, blockTokens }: BlockColumns,
  config: CacheConfig,
): Uint32Array {
  const rules = rulesFor(config.index, config.rules);
  const limited = rules["match-limit"] !== "all";
  const capacity = config.eviction.unlimited ? Number.POSITIVE_INFINITY : (config.blocks ?? Number.POSITIVE_INFINITY);
  return promptBlocks.map((blocks, r) => {
    const reservedTokens = rules.reserve === "worst-case" ? Math.max(0, trace.maxOutputTokens[r] - 1) : 0;
    if (Math.ceil((trace.inputTokens[r] + reservedTokens) / blockTokens) > capacity) return 0;
    return usableBlocks(blocks, trace.inputTokens[r], blockTokens, limited, rules["drop-blocks"]);
  });
}

/** Replays a whole trace. */
export function replayTrace(trace: Trace, config: ReplayConfig, blocks?: BlockColumns): ReplayResult {
  const replay = new CacheReplay(config);
  replay.feed(trace, blocks);
  return replay.result();
}

function newResults(trace: Trace, blocks: BlockColumns): RequestResults {
  const n = trace.requestCount;
  return {
    arrivalNs: trace.arrivalNs,
    inputTokens: trace.inputTokens,
    outputTokens: trace.outputTokens,
    promptBlocks: blocks.promptBlocks,
    session: trace.optional.session ?? new Uint32Array(n),
    hitBlocks: new Uint32Array(n),
    hitTokens: new Uint32Array(n),
    refused: new Uint8Array(n),
  };
}

type ResultColumn = RequestResults[keyof RequestResults];

const fedRows = ({ results, fedTo }: Batch): RequestResults => rowsOf(results, 0, fedTo);

/** Rows `[from, to)` of all columns. */
export function rowsOf<Columns extends object>(columns: Columns, from: number, to: number): Columns {
  const rows = Object.entries(columns).map(([name, column]) => [name, (column as ResultColumn).subarray(from, to)]);
  return Object.fromEntries(rows) as Columns;
}

/** The columns of all batches, one batch after the other. */
function joined(batches: readonly RequestResults[]): RequestResults {
  if (batches.length === 1) return batches[0];
  const requests = batches.reduce((sum, { refused }) => sum + refused.length, 0);
  const columns: Record<string, ResultColumn> = {};
  for (const [name, first] of Object.entries(batches[0]) as [keyof RequestResults, ResultColumn][]) {
    const whole: ResultColumn = new (first.constructor as Uint32ArrayConstructor)(requests);
    let at = 0;
    for (const batch of batches) {
      const part = batch[name];
      whole.set(part, at);
      at += part.length;
    }
    columns[name] = whole;
  }
  return columns as unknown as RequestResults;
}
