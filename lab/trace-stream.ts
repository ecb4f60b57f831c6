import { assert, InputError } from "../core/errors.ts";
import { headOf, readTrace, type Trace } from "../core/trace/trace.ts";
import { BatchStore } from "./batch-store.ts";
import { throwIfInterrupted, yieldToEvents } from "./control.ts";

/** Requests, tokens and times of a whole trace. */
export interface TraceTotals {
  readonly unitTokens: number;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time of the first and of the last request, at speed 1. */
  readonly firstNs: number;
  readonly lastNs: number;
}

/** Name, files and format of a trace, and how it is read. */
export interface TraceReader {
  readonly name: string;
  readonly files: readonly string[];
  readonly format: string;
  /** Reads the trace once; a later call reads it again. */
  read(): AsyncIterable<Trace>;
}

/** About the size of a request's columns without its keys. */
const bytesPerRequest = 64;

/**
 * A trace as batches, which are read in one pass or in several. Memory contains one batch at a time, unless the whole trace is
 * small or was requested by `whole`. Later passes read a `BatchStore`.
 */
export class TraceStream {
  readonly name: string;
  readonly files: readonly string[];
  readonly format: string;
  readonly #reader: TraceReader;
  readonly #limit: number;
  readonly #signal: AbortSignal | undefined;
  #totals: TraceTotals | undefined;
  #hasNamespaces = false;
  /** The trace, if it is in memory as one batch. */
  #whole: Trace | undefined;
  /** All batches, if they are kept. */
  #kept: BatchStore<Trace> | undefined;
  /** A pass that `head` has begun, and its first batch. */
  #begun: { readonly head: Trace; readonly rest: AsyncGenerator<Trace> } | undefined;

  constructor(reader: TraceReader, limit = Number.POSITIVE_INFINITY, signal?: AbortSignal) {
    this.#reader = reader;
    this.name = reader.name;
    this.files = reader.files;
    this.format = reader.format;
    this.#limit = limit;
    this.#signal = signal;
  }

  /** A trace that is in memory. */
  static of(trace: Trace, { name, files, format }: Omit<TraceReader, "read">): TraceStream {
    const stream = new TraceStream({ name, files, format, read: () => asynchronous([trace]) });
    stream.#keep(trace);
    return stream;
  }

  /** Name, files and format. */
  get label(): Omit<TraceReader, "read"> {
    const { name, files, format } = this;
    return { name, files, format };
  }

  /** Totals of the trace; undefined before the end of the first pass. */
  get totals(): TraceTotals | undefined {
    return this.#totals;
  }

  /** Whether the trace is in memory as one batch. */
  get isWhole(): boolean {
    return this.#whole !== undefined;
  }

  /** Whether a request has a namespace; known after the first pass. */
  get hasNamespaces(): boolean {
    return this.#hasNamespaces;
  }

  /** The first batch. @throws InputError if the trace has no requests */
  async head(): Promise<Trace> {
    if (this.#whole) return this.#whole;
    if (this.#kept) return this.#kept.read().next().value!;
    if (this.#begun) return this.#begun.head;
    const rest = this.#limited();
    const { value, done } = await rest.next();
    if (done) throw new InputError(`${this.files.join(", ") || this.format}: no requests`);
    this.#begun = { head: value, rest };
    return value;
  }

  /** Reads all batches, which are kept for later passes. `advance` is called with the requests of a batch. */
  async count(advance: (requests: number) => void = () => {}): Promise<TraceTotals> {
    if (this.#totals === undefined) for await (const { requestCount } of this.batches(true)) advance(requestCount);
    assert(this.#totals !== undefined, "a pass ended without totals");
    return this.#totals;
  }

  /** All batches in order. `keeps`: they are kept for later passes. */
  async *batches(keeps = false): AsyncGenerator<Trace> {
    if (this.#whole) {
      yield this.#whole;
      return;
    }
    if (this.#kept) {
      for (const batch of this.#kept.read()) {
        await yieldToEvents(this.#signal);
        yield batch;
      }
      return;
    }
    const counted = new Totals();
    const kept = keeps ? new BatchStore<Trace>() : undefined;
    try {
      for await (const batch of this.#pass()) {
        counted.add(batch);
        this.#hasNamespaces ||= batch.optional.namespace !== undefined;
        // A view keeps its whole buffer in memory.
        kept?.add(batch, batch.keys.buffer.byteLength + batch.requestCount * bytesPerRequest);
        yield batch;
      }
      this.#totals = counted.totals();
      this.#kept = kept;
    } finally {
      if (this.#kept !== kept) kept?.close();
    }
  }

  /** The trace in memory: for runs that need its end before their beginning. `advance` is called with the requests of a batch. */
  async whole(advance: (requests: number) => void = () => {}): Promise<Trace> {
    if (this.#whole) return this.#whole;
    const { files, format } = this;
    const batches = async function* (stream: TraceStream) {
      for await (const batch of stream.batches()) {
        advance(batch.requestCount);
        yield batch;
      }
    };
    const trace = await readTrace({ files, format, batches: () => batches(this) });
    this.#keep(trace);
    return trace;
  }

  /** Ends a pass that `head` has begun, and removes what was kept. */
  async close(): Promise<void> {
    await this.#begun?.rest.return(undefined);
    this.#begun = undefined;
    this.#kept?.close();
  }

  #keep(trace: Trace): void {
    const counted = new Totals();
    counted.add(trace);
    this.#totals = counted.totals();
    this.#hasNamespaces = trace.optional.namespace !== undefined;
    this.#whole = trace;
  }

  async *#pass(): AsyncGenerator<Trace> {
    const { head, rest }: { head?: Trace; rest: AsyncGenerator<Trace> } = this.#begun ?? { rest: this.#limited() };
    this.#begun = undefined;
    try {
      if (head) yield head;
      for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
    } finally {
      await rest.return(undefined);
    }
  }

  /** The batches that the reader returns, up to the limit; signals are handled between them. */
  async *#limited(): AsyncGenerator<Trace> {
    let left = this.#limit;
    let distinctKeys = 0;
    try {
      for await (const batch of this.#reader.read()) {
        await yieldToEvents(this.#signal);
        if (batch.requestCount === 0) continue;
        yield left < batch.requestCount ? headOf(batch, left, distinctKeys) : batch;
        distinctKeys = batch.distinctKeys;
        left -= batch.requestCount;
        if (left <= 0) return;
      }
    } catch (error) {
      throwIfInterrupted(this.#signal);
      throw error;
    }
  }
}

async function* asynchronous<T>(values: readonly T[]): AsyncGenerator<T> {
  yield* values;
}

class Totals {
  #unitTokens = 0;
  #requests = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #firstNs = 0;
  #lastNs = 0;

  add({ unitTokens, requestCount, inputTokens, outputTokens, arrivalNs }: Trace): void {
    if (requestCount === 0) return;
    if (this.#requests === 0) this.#firstNs = arrivalNs[0];
    this.#unitTokens = unitTokens;
    this.#requests += requestCount;
    for (let r = 0; r < requestCount; r++) {
      this.#inputTokens += inputTokens[r];
      this.#outputTokens += outputTokens[r];
    }
    this.#lastNs = arrivalNs[requestCount - 1];
  }

  totals(): TraceTotals {
    return {
      unitTokens: this.#unitTokens,
      requests: this.#requests,
      inputTokens: this.#inputTokens,
      outputTokens: this.#outputTokens,
      firstNs: this.#firstNs,
      lastNs: this.#lastNs,
    };
  }
}
