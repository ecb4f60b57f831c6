import { setImmediate as nextTurn } from "node:timers/promises";
import type { Request, Sequence } from "../core/cache/request.ts";
import { InputError } from "../core/errors.ts";
import { blockKeysFor } from "../core/replica/compose.ts";
import type { TraceBatch } from "../core/serving/arrivals.ts";
import type { BlockKeys } from "../core/trace/content.ts";
import { GrowingBlocks } from "../core/trace/growing-blocks.ts";
import { type Nanos, type Trace, TraceBuilder } from "../core/trace/trace.ts";
import { checkContents } from "./engine.ts";
import { type EngineConfig, EngineLoop } from "./engine-loop.ts";
import { checkSampling, type SampledToken, type SamplingOptions } from "./sampling.ts";

/** A request of a client: a prompt of token ids, and how its output is generated. */
export interface OnlineRequest {
  readonly prompt: ArrayLike<number>;
  /** Most output tokens, from 1. */
  readonly maxTokens: number;
  readonly sampling: SamplingOptions;
  /** Tokens that end the output. */
  readonly endTokens: readonly number[];
  /** Requests of different namespaces share no blocks; 0 by default. */
  readonly namespace?: number;
  /** 0 = none. */
  readonly session?: number;
  /** A larger number is a higher priority; 0 by default. */
  readonly priority?: number;
  /** Called with each output token. Must not throw. */
  onToken(sampled: SampledToken, isLast: boolean): void;
  /** Called once, when the request has ended and its blocks are released. Must not throw. */
  onEnd(end: RequestEnd): void;
}

/** The end of a request. Times are ns on the engine's clock; undefined: it has not happened. */
export interface RequestEnd {
  readonly id: number;
  /** Why the request was refused, also because it was cancelled before its first token; undefined: it finished. */
  readonly refused: string | undefined;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens: number;
  readonly preemptions: number;
  readonly arrivalNs: Nanos;
  readonly admittedNs: Nanos | undefined;
  readonly firstTokenNs: Nanos | undefined;
  readonly finishedNs: Nanos;
}

export interface OnlineEngineConfig
  extends Omit<EngineConfig, "choice" | "onToken" | "needsLogits" | "arrivals" | "sink" | "forgets" | "warmup"> {
  /** Most tokens of a prompt and its output. */
  readonly maxPositions: number;
}

/** A request that has not ended. */
interface Active {
  readonly request: OnlineRequest;
  readonly trace: Trace;
  readonly blocks: GrowingBlocks;
  outputTokens: number;
  /** The token that was sampled last. */
  sampled: SampledToken | undefined;
  /** The request as the replica has it; undefined before its arrival. */
  row: Request | undefined;
}

/**
 * Serves requests that arrive while it runs, with the loop of `Engine`: each request is a trace of one row, which arrives when it is
 * submitted. Output tokens decide when a request ends, and blocks of output tokens have content ids as soon as they are full, so that
 * a later prompt that repeats an output finds its blocks (rule `cache-generated`). Memory grows with the number of distinct blocks
 * that were ever computed, about 200 bytes each, and not with the number of requests.
 */
export class OnlineEngine extends EngineLoop {
  /** Requests that were submitted and have not ended, by id. */
  readonly #active: Map<number, Active>;
  readonly #config: OnlineEngineConfig;
  readonly #keys: BlockKeys;
  readonly #cancelled = new Set<number>();
  #isClosed = false;
  #wake: () => void = () => {};

  /** @throws InputError if cache and executor disagree on the blocks, or the policies need a whole trace */
  constructor(config: OnlineEngineConfig) {
    if (config.eviction.offline)
      throw new InputError(`eviction ${config.eviction.name} reads the future, which a server does not know`);
    const active = new Map<number, Active>();
    const end = ({ request: { id }, generatedTokens }: Sequence, refused: string | undefined) =>
      this.#ended(id, generatedTokens, refused);
    super({
      ...config,
      sink: () => {},
      forgets: true,
      choice: {
        endTokens: [],
        samplingOf: ({ id }) => active.get(id)!.request.sampling,
        isStop({ id }, sampled) {
          const one = active.get(id)!;
          one.sampled = sampled;
          return one.request.endTokens.includes(sampled.token);
        },
      },
      onToken: (request, _token, isLast) => this.#addToken(request, isLast),
      needsLogits: () => false,
      observers: [
        {
          arrived(request) {
            active.get(request.id)!.row = request;
          },
          ended: (sequence, _replica, _nowNs, refused) => end(sequence, refused),
        },
        ...(config.observers ?? []),
      ],
    });
    this.#active = active;
    this.#config = config;
    this.#keys = blockKeysFor(config, 1, { lateNamespaces: true });
    const none = new TraceBuilder(1).take();
    const columns = this.#keys.of(none);
    checkContents(none, columns, { ...config, choice: { endTokens: [] } });
    this.feed(none, columns);
  }

  /** Requests that were submitted and have not ended. */
  get activeCount(): number {
    return this.#active.size;
  }

  /** Distinct blocks so far. */
  get distinctBlocks(): number {
    return this.#keys.distinct;
  }

  /**
   * Submits a request, which arrives now. @returns its id
   *
   * @throws InputError if it is invalid, or longer than the model's positions or the cache
   */
  submit(request: OnlineRequest): number {
    this.#check(request);
    const { prompt, maxTokens, namespace, session, priority } = request;
    const builder = new TraceBuilder(1);
    builder.add({
      ...{ arrivalNs: this.nowNs, inputTokens: prompt.length, keys: prompt },
      ...{ outputTokens: maxTokens, maxOutputTokens: maxTokens },
      ...(namespace !== undefined && { namespace }),
      ...(session !== undefined && { session }),
      ...(priority !== undefined && { priority }),
    });
    const trace = builder.take();
    const blocks = new GrowingBlocks(trace, this.#keys.promptOf(trace));
    const id = this.arrivals.count;
    this.#active.set(id, { request, trace, blocks, outputTokens: 0, sampled: undefined, row: undefined });
    this.feed(trace, blocks.columns);
    this.#wake();
    return id;
  }

  /** Ends a request before its next step: it finishes with the output tokens so far, or is refused if it has none. */
  cancel(id: number): void {
    if (!this.#active.has(id)) return;
    this.#cancelled.add(id);
    this.#wake();
  }

  /** Cancels all requests that have not ended. */
  cancelAll(): void {
    for (const id of this.#active.keys()) this.cancel(id);
  }

  /** No request will be submitted any more: `run` returns when all have ended. */
  close(): void {
    this.#isClosed = true;
    this.#wake();
  }

  override stop(): void {
    super.stop();
    this.#wake();
  }

  /** Serves requests until `close` and the end of all requests, or until `stop`. */
  async run(): Promise<void> {
    // Connections are handled between two steps, also where steps need no other thread.
    await this.serve(async () => void (await nextTurn()));
  }

  protected override betweenSteps(nowNs: Nanos): void {
    for (const id of this.#cancelled) {
      const active = this.#active.get(id);
      // It may arrive later than the present step.
      if (active && active.row === undefined) continue;
      this.#cancelled.delete(id);
      if (!active) continue;
      if (active.outputTokens > 0) {
        active.trace.outputTokens[0] = active.outputTokens;
        if (active.blocks.endHere()) this.#grow(active);
      }
      this.cancelRequest(this.replica, id, nowNs);
    }
  }

  protected override async more(): Promise<boolean> {
    this.checkIdle();
    if (this.#isClosed && this.#active.size === 0) return false;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    return !this.isStopped;
  }

  #addToken(row: Request, isLast: boolean): void {
    const active = this.#active.get(row.id)!;
    const { request, trace, blocks, sampled } = active;
    active.outputTokens++;
    if (isLast) trace.outputTokens[0] = active.outputTokens;
    if (isLast ? blocks.end() : blocks.add(sampled!.token)) this.#grow(active);
    request.onToken(sampled!, isLast);
  }

  /** A block of output tokens has a content id. */
  #grow({ row, blocks }: Active): void {
    row!.knownBlocks = blocks.knownBlocks;
    this.replica.cache.expectKeys(blocks.distinct);
  }

  #ended(id: number, outputTokens: number, refused: string | undefined): void {
    const { request } = this.#active.get(id)!;
    this.#active.delete(id);
    this.#cancelled.delete(id);
    request.onEnd({ id, outputTokens, refused, ...timesOf(this.arrivals.batchOf(id), id) });
  }

  #check({ prompt, maxTokens, sampling }: OnlineRequest): void {
    const { vocabulary, maxPositions, blockTokens, blocks = 0 } = this.#config;
    if (this.#isClosed) throw new InputError("the engine is closed");
    checkSampling(sampling);
    if (prompt.length === 0) throw new InputError("the prompt is empty, expected at least one token");
    if (!(Number.isSafeInteger(maxTokens) && maxTokens >= 1))
      throw new InputError(`maxTokens is ${maxTokens}, expected a whole number from 1`);
    for (let i = 0; i < prompt.length; i++)
      if (!(Number.isInteger(prompt[i]) && prompt[i] >= 0 && prompt[i] < vocabulary))
        throw new InputError(`the prompt has token ${prompt[i]}, expected one below ${vocabulary}`);
    const tokens = prompt.length + maxTokens;
    if (tokens > maxPositions)
      throw new InputError(
        `the prompt has ${prompt.length} tokens, which with ${maxTokens} output tokens exceed the model's ${maxPositions} positions`,
      );
    if (Math.ceil(tokens / blockTokens) > blocks)
      throw new InputError(
        `the prompt has ${prompt.length} tokens, which with ${maxTokens} output tokens exceed the cache's ${blocks * blockTokens} tokens`,
      );
  }
}

function timesOf({ outcomes, firstId }: TraceBatch, id: number) {
  const row = id - firstId;
  const time = (column: Float64Array) => (column[row] < 0 ? undefined : column[row]);
  return {
    inputTokens: outcomes.inputTokens[row],
    cachedTokens: outcomes.hitTokens[row],
    preemptions: outcomes.preemptions[row],
    arrivalNs: outcomes.arrivalNs[row],
    admittedNs: time(outcomes.admittedNs),
    firstTokenNs: time(outcomes.firstTokenNs),
    finishedNs: outcomes.finishedNs[row],
  };
}
