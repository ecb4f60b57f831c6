import { InputError } from "../core/errors.ts";
import { headOf, readTrace, type Trace } from "../core/trace/trace.ts";
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

/** Batches of at most this size in total are kept for later passes; larger traces are read again. */
const mostKeptBytes = 128 * 2 ** 20;
/** About the size of a request's columns without its keys. */
const bytesPerRequest = 64;

/**
 * A trace as batches, which are read in one pass or in several. Memory contains one batch at a time, unless the whole trace is
 * small or was requested by `whole`.
 */
export class TraceStream {
  readonly name: string;
  readonly files: readonly string[];
  readonly format: string;
  readonly #reader: TraceReader;
  readonly #limit: number;
  readonly #signal: AbortSignal | undefined;
  #totals: TraceTotals | undefined;
  /** All batches, if they are in memory. */
  #kept: readonly Trace[] | undefined;
  /** The batches of the present pass, if they are kept. */
  #keeping: Trace[] | undefined;
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
    stream.#keep([trace]);
    return stream;
  }

  /** Totals of the trace; undefined before the end of the first pass. */
  get totals(): TraceTotals | undefined {
    return this.#totals;
  }

  /** Whether all batches so far are in memory, so that another pass reads no file. */
  get isInMemory(): boolean {
    return this.#kept !== undefined || this.#keeping !== undefined;
  }

  /** The first batch. @throws InputError if the trace has no requests */
  async head(): Promise<Trace> {
    if (this.#kept) return this.#kept[0];
    if (this.#begun) return this.#begun.head;
    const rest = this.#limited();
    const { value, done } = await rest.next();
    if (done) throw new InputError(`${this.files.join(", ") || this.format}: no requests`);
    this.#begun = { head: value, rest };
    return value;
  }

  /** All batches in order. `keeps`: another pass follows, so that the batches of a small trace are kept. */
  async *batches(keeps = false): AsyncGenerator<Trace> {
    if (this.#kept) {
      yield* this.#kept;
      return;
    }
    const counted = new Totals();
    let bytes = 0;
    this.#keeping = keeps ? [] : undefined;
    for await (const batch of this.#pass()) {
      counted.add(batch);
      // A view keeps its whole buffer in memory.
      bytes += batch.keys.buffer.byteLength + batch.requestCount * bytesPerRequest;
      if (bytes > mostKeptBytes) this.#keeping = undefined;
      this.#keeping?.push(batch);
      yield batch;
    }
    this.#totals = counted.totals();
    this.#kept = this.#keeping;
  }

  /** The trace in memory: for runs that need its end before their beginning. `advance` is called with the requests of a batch. */
  async whole(advance: (requests: number) => void = () => {}): Promise<Trace> {
    if (this.#kept?.length === 1) return this.#kept[0];
    const { files, format } = this;
    const batches = async function* (stream: TraceStream) {
      for await (const batch of stream.batches()) {
        advance(batch.requestCount);
        yield batch;
      }
    };
    const trace = await readTrace({ files, format, batches: () => batches(this) });
    this.#keep([trace]);
    return trace;
  }

  /** Ends a pass that `head` has begun. */
  async close(): Promise<void> {
    await this.#begun?.rest.return(undefined);
    this.#begun = undefined;
  }

  #keep(batches: readonly Trace[]): void {
    const counted = new Totals();
    for (const batch of batches) counted.add(batch);
    this.#totals = counted.totals();
    this.#kept = batches;
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
