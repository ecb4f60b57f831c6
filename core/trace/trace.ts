import { InputError } from "../errors.ts";
import { grown } from "../grown.ts";

/** A point in time or a duration in integer nanoseconds; exact up to 2^53 ns, which is 104 days. */
export type Nanos = number;

/**
 * Requests as columns. The prompt of row r has `inputTokens[r]` tokens, with the keys
 * `keys[keyStart[r] .. keyStart[r + 1])`.
 *
 * `unitTokens` = 1: a key is a token id. `unitTokens` > 1: a key is the content id of a block of that many tokens *and all
 * tokens before it*: equal ids are equal prefixes. A partial last unit may have a key or none. Content ids are dense:
 * 0 .. `distinctKeys` − 1, in order of first appearance.
 */
export interface Trace {
  readonly unitTokens: number;
  readonly requestCount: number;
  /** Integer nanoseconds from the start of the trace, never decreasing. */
  readonly arrivalNs: Float64Array;
  readonly inputTokens: Uint32Array;
  /** Number of output tokens. Only the code that executes steps reads it; schedulers and policies must not. */
  readonly outputTokens: Uint32Array;
  /** The client's limit: the only output length that a scheduler may read. */
  readonly maxOutputTokens: Uint32Array;
  readonly keys: Uint32Array;
  /** `requestCount + 1` offsets into `keys`. */
  readonly keyStart: Float64Array;
  /** One more than the largest key so far, over all batches of the source. */
  readonly distinctKeys: number;
  /** The requests have lengths, but no keys: every block is new content. */
  readonly lengthsOnly?: true;
  readonly optional: OptionalColumns;
}

/**
 * What the keys of a trace are: content ids of blocks, token ids, or nothing (lengths only). A trace of lengths has no hit
 * ratios; it can be served without a cache.
 */
export type TraceContent = "blocks" | "tokens" | "lengths";

/** Columns that only some sources have. */
export interface OptionalColumns {
  /** Requests of different namespaces (tenant salt, adapter) never share a block. Dense ids; 0 = none. */
  namespace?: Uint32Array;
  /** Dense ids of conversations; 0 = none. */
  session?: Uint32Array;
  /** Row, over the whole source, of the previous turn of the conversation; −1 = none. */
  parent?: Int32Array;
  /** Time between the end of the parent and this arrival, in nanoseconds. */
  thinkNs?: Float64Array;
  /** A larger number is a higher priority. */
  priority?: Int32Array;
  /** Time after their last use for which a request's entries keep their priority, in nanoseconds; 0 = unlimited. */
  retentionNs?: Float64Array;
  /** Dense ids of traffic classes; 0 = none. */
  category?: Uint32Array;
  /** Length of the marked prefix, in tokens. */
  markedTokens?: Uint32Array;
  /** Dense ids of the tools that sessions call when a request has ended, from 1; 0 = none. */
  tool?: Uint32Array;
  /** The client's estimate of the time from the end of a request to the next one of its session, in nanoseconds; 0 = none. */
  nextUseNs?: Float64Array;
  /** The client's estimate of the number of steps of its workflow until the next request of the session; 0 = none. */
  nextUseSteps?: Uint32Array;
  /** Time from the end of a request for which its marked prefix, or else its prompt, is to be kept, in nanoseconds; 0 = none. */
  keepNs?: Float64Array;
  /** 0: the session goes on after the request; 1: it is closed; 2: also, what it has cached will not be used again. */
  sessionEnd?: Uint32Array;
  /** Token ids of the output (unit 1 only), with `requestCount + 1` offsets. */
  generatedKeys?: Uint32Array;
  generatedStart?: Float64Array;
}

/** One request as a record; `TraceBuilder.add` appends it to the columns. */
export interface TraceRow {
  /** Integer nanoseconds from the start of the trace, not less than that of the row before. */
  arrivalNs: Nanos;
  /** Length of the prompt in tokens. */
  inputTokens: number;
  /** Number of output tokens. */
  outputTokens: number;
  /** The client's limit; by default `outputTokens`. */
  maxOutputTokens?: number;
  /** Token ids, or content ids of units of `unitTokens` tokens; see `Trace`. */
  keys: ArrayLike<number>;
  /** Number of keys of the prompt, the first ones in `keys`; by default all of them. */
  keyCount?: number;
  /** 0 = none; see `OptionalColumns` for this and the following columns. */
  namespace?: number;
  /** 0 = none. */
  session?: number;
  /** Row of the previous turn; −1 = none. */
  parent?: number;
  /** Nanoseconds between the end of the parent and this arrival. */
  thinkNs?: Nanos;
  /** A larger number is a higher priority. */
  priority?: number;
  /** Nanoseconds; 0 = unlimited. */
  retentionNs?: Nanos;
  /** 0 = none. */
  category?: number;
  /** Length of the marked prefix in tokens. */
  markedTokens?: number;
  /** 0 = none, also in the following columns. */
  tool?: number;
  /** Nanoseconds from the end of the request. */
  nextUseNs?: Nanos;
  nextUseSteps?: number;
  /** Nanoseconds from the end of the request. */
  keepNs?: Nanos;
  sessionEnd?: number;
  /** Token ids of the output. */
  generatedKeys?: ArrayLike<number>;
}

/** A file or generator of requests. Batches share one numbering of keys, so that a trace larger than memory can stream. */
export interface TraceSource {
  /** Name of the format, a value of `--format`. */
  readonly format: string;
  /** Input files, in order; empty for a generator. `-` is standard input, which can be read once. */
  readonly files: readonly string[];
  readonly content: TraceContent;
  /** Remarks about unusual contents that were read nevertheless, such as an inferred unit. Complete after the last batch. */
  notes?(): readonly string[];
  /** @throws TraceError with file, line, what was found and what was expected. */
  batches(): AsyncIterable<Trace>;
}

type RowColumn =
  | "namespace"
  | "session"
  | "parent"
  | "thinkNs"
  | "priority"
  | "retentionNs"
  | "category"
  | "markedTokens"
  | "tool"
  | "nextUseNs"
  | "nextUseSteps"
  | "keepNs"
  | "sessionEnd";
type Column = Float64Array | Uint32Array | Int32Array;

const optionalColumns = {
  namespace: (n: number) => new Uint32Array(n),
  session: (n: number) => new Uint32Array(n),
  parent: (n: number) => new Int32Array(n).fill(-1),
  thinkNs: (n: number) => new Float64Array(n),
  priority: (n: number) => new Int32Array(n),
  retentionNs: (n: number) => new Float64Array(n),
  category: (n: number) => new Uint32Array(n),
  markedTokens: (n: number) => new Uint32Array(n),
  tool: (n: number) => new Uint32Array(n),
  nextUseNs: (n: number) => new Float64Array(n),
  nextUseSteps: (n: number) => new Uint32Array(n),
  keepNs: (n: number) => new Float64Array(n),
  sessionEnd: (n: number) => new Uint32Array(n),
} satisfies Record<RowColumn, (n: number) => Column>;

const rowColumns = Object.keys(optionalColumns) as RowColumn[];

const batchRequests = 8192;
const batchKeys = 1 << 22;
/** Small, because tests build many short traces; columns double. */
const initialRows = 64;
const initialKeys = 512;

/** Appends rows to columns, without validation: readers validate. */
export class TraceBuilder {
  readonly unitTokens: number;
  requestCount = 0;
  #distinctKeys: number;
  #keyCount = 0;
  #generatedCount = 0;
  #arrivalNs = new Float64Array(initialRows);
  #inputTokens = new Uint32Array(initialRows);
  #outputTokens = new Uint32Array(initialRows);
  #maxOutputTokens = new Uint32Array(initialRows);
  #keyStart = new Float64Array(initialRows + 1);
  #keys: Uint32Array = new Uint32Array(initialKeys);
  #generatedStart = new Float64Array(initialRows + 1);
  #generatedKeys: Uint32Array | undefined;
  readonly #optional = new Map<RowColumn, Column>();
  readonly #lengthsOnly: boolean;

  constructor(
    unitTokens: number,
    distinctKeys = 0,
    { lengthsOnly = false }: { lengthsOnly?: boolean | undefined } = {},
  ) {
    this.unitTokens = unitTokens;
    this.#distinctKeys = distinctKeys;
    this.#lengthsOnly = lengthsOnly;
  }

  /** Whether the rows so far are enough for a batch: readers then yield `take()`, so that their memory is bounded. */
  get isFull(): boolean {
    return this.requestCount >= batchRequests || this.#keyCount + this.#generatedCount >= batchKeys;
  }

  /** Appends one request. `row` may be reused by the caller. */
  add(row: TraceRow): void {
    const r = this.requestCount++;
    if (r === this.#arrivalNs.length) this.#growRows(r * 2);
    this.#arrivalNs[r] = row.arrivalNs;
    this.#inputTokens[r] = row.inputTokens;
    this.#outputTokens[r] = row.outputTokens;
    this.#maxOutputTokens[r] = row.maxOutputTokens ?? row.outputTokens;
    const keyCount = row.keyCount ?? row.keys.length;
    this.#keys = this.#append(this.#keys, this.#keyCount, row.keys, keyCount);
    this.#keyCount += keyCount;
    this.#keyStart[r + 1] = this.#keyCount;
    if (row.generatedKeys) {
      this.#generatedKeys = this.#append(
        this.#generatedKeys ?? new Uint32Array(initialKeys),
        this.#generatedCount,
        row.generatedKeys,
        row.generatedKeys.length,
      );
      this.#generatedCount += row.generatedKeys.length;
    }
    this.#generatedStart[r + 1] = this.#generatedCount;
    // By name, which is several times faster than a loop over names.
    const { namespace, session, parent, thinkNs, priority, retentionNs, category, markedTokens } = row;
    if (namespace !== undefined) this.#set("namespace", r, namespace);
    if (session !== undefined) this.#set("session", r, session);
    if (parent !== undefined) this.#set("parent", r, parent);
    if (thinkNs !== undefined) this.#set("thinkNs", r, thinkNs);
    if (priority !== undefined) this.#set("priority", r, priority);
    if (retentionNs !== undefined) this.#set("retentionNs", r, retentionNs);
    if (category !== undefined) this.#set("category", r, category);
    if (markedTokens !== undefined) this.#set("markedTokens", r, markedTokens);
    const { tool, nextUseNs, nextUseSteps, keepNs, sessionEnd } = row;
    if (tool !== undefined) this.#set("tool", r, tool);
    if (nextUseNs !== undefined) this.#set("nextUseNs", r, nextUseNs);
    if (nextUseSteps !== undefined) this.#set("nextUseSteps", r, nextUseSteps);
    if (keepNs !== undefined) this.#set("keepNs", r, keepNs);
    if (sessionEnd !== undefined) this.#set("sessionEnd", r, sessionEnd);
  }

  #set(name: RowColumn, r: number, value: number): void {
    let column = this.#optional.get(name);
    if (!column) this.#optional.set(name, (column = optionalColumns[name](this.#arrivalNs.length)));
    column[r] = value;
  }

  /** The rows so far as a trace; the builder is empty afterwards, and the numbering of keys continues. */
  take(): Trace {
    const n = this.requestCount;
    const optional: OptionalColumns = {};
    for (const [name, column] of this.#optional) Object.assign(optional, { [name]: column.slice(0, n) });
    if (this.#generatedKeys) {
      optional.generatedKeys = this.#generatedKeys.slice(0, this.#generatedCount);
      optional.generatedStart = this.#generatedStart.slice(0, n + 1);
    }
    const trace: Trace = {
      unitTokens: this.unitTokens,
      requestCount: n,
      arrivalNs: this.#arrivalNs.slice(0, n),
      inputTokens: this.#inputTokens.slice(0, n),
      outputTokens: this.#outputTokens.slice(0, n),
      maxOutputTokens: this.#maxOutputTokens.slice(0, n),
      keys: this.#keys.slice(0, this.#keyCount),
      keyStart: this.#keyStart.slice(0, n + 1),
      distinctKeys: this.#distinctKeys,
      ...(this.#lengthsOnly && { lengthsOnly: true }),
      optional,
    };
    this.requestCount = this.#keyCount = this.#generatedCount = 0;
    for (const name of this.#optional.keys()) this.#optional.set(name, optionalColumns[name](this.#arrivalNs.length));
    return trace;
  }

  #append(into: Uint32Array, at: number, keys: ArrayLike<number>, count: number): Uint32Array {
    const end = at + count;
    if (end > into.length) into = grown(into, Math.max(end, into.length * 2));
    let distinct = this.#distinctKeys;
    for (let i = 0; i < count; i++) {
      const key = keys[i];
      into[at + i] = key;
      if (key >= distinct) distinct = key + 1;
    }
    this.#distinctKeys = distinct;
    return into;
  }

  #growRows(length: number): void {
    this.#arrivalNs = grown(this.#arrivalNs, length);
    this.#inputTokens = grown(this.#inputTokens, length);
    this.#outputTokens = grown(this.#outputTokens, length);
    this.#maxOutputTokens = grown(this.#maxOutputTokens, length);
    this.#keyStart = grown(this.#keyStart, length + 1);
    this.#generatedStart = grown(this.#generatedStart, length + 1);
    for (const [name, column] of this.#optional) {
      const larger = optionalColumns[name](length);
      larger.set(column);
      this.#optional.set(name, larger);
    }
  }
}

/** Row `r` of a trace as a record; allocates, so not for hot loops. */
export function rowOf(trace: Trace, r: number): TraceRow {
  const row: TraceRow = {
    arrivalNs: trace.arrivalNs[r],
    inputTokens: trace.inputTokens[r],
    outputTokens: trace.outputTokens[r],
    maxOutputTokens: trace.maxOutputTokens[r],
    keys: trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]),
  };
  for (const name of rowColumns) {
    const column = trace.optional[name];
    if (column) row[name] = column[r];
  }
  const { generatedKeys, generatedStart } = trace.optional;
  if (generatedKeys && generatedStart)
    row.generatedKeys = generatedKeys.subarray(generatedStart[r], generatedStart[r + 1]);
  return row;
}

/** The first `count` requests of a batch; `distinctBefore`: `distinctKeys` of the batch before it. */
export function headOf(batch: Trace, count: number, distinctBefore: number): Trace {
  const { generatedKeys, generatedStart, ...columns } = batch.optional;
  const optional: OptionalColumns = Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, column.subarray(0, count)]),
  );
  if (generatedKeys && generatedStart) {
    optional.generatedKeys = generatedKeys.subarray(0, generatedStart[count]);
    optional.generatedStart = generatedStart.subarray(0, count + 1);
  }
  const keys = batch.keys.subarray(0, batch.keyStart[count]);
  return {
    ...batch,
    requestCount: count,
    arrivalNs: batch.arrivalNs.subarray(0, count),
    inputTokens: batch.inputTokens.subarray(0, count),
    outputTokens: batch.outputTokens.subarray(0, count),
    maxOutputTokens: batch.maxOutputTokens.subarray(0, count),
    keys,
    keyStart: batch.keyStart.subarray(0, count + 1),
    distinctKeys: keys.reduce((most, key) => Math.max(most, key + 1), distinctBefore),
    optional,
  };
}

/** Reads the whole source, or its first `limit` requests, into memory. */
export async function readTrace(
  source: Pick<TraceSource, "files" | "format" | "batches">,
  limit = Number.POSITIVE_INFINITY,
): Promise<Trace> {
  let builder: TraceBuilder | undefined;
  let only: Trace | undefined;
  let left = limit;
  for await (const batch of source.batches()) {
    if (!builder && !only && batch.requestCount <= left) {
      only = batch;
      left -= batch.requestCount;
      if (left === 0) break;
      continue;
    }
    if (!builder) {
      builder = new TraceBuilder(batch.unitTokens, 0, batch);
      if (only) for (let r = 0; r < only.requestCount; r++) builder.add(rowOf(only, r));
    }
    const take = Math.min(left, batch.requestCount);
    for (let r = 0; r < take; r++) builder.add(rowOf(batch, r));
    left -= take;
    if (left === 0) break;
  }
  const trace = builder ? builder.take() : only;
  if (!trace || trace.requestCount === 0)
    throw new InputError(`${source.files.join(", ") || source.format}: no requests`);
  return trace;
}
