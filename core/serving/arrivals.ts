import { Request } from "../cache/request.ts";
import { assert, InputError } from "../errors.ts";
import type { BlockColumns } from "../trace/content.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { type MeasuredOutcomes, measuredColumns, newOutcomes, type Outcomes } from "./outcomes.ts";
import { Turns } from "./turns.ts";

/**
 * A trace, or a batch of one, that is being served. When all of its requests have ended, only their outcomes are kept: the
 * memory of a long run grows with its outcomes alone.
 */
export class TraceBatch {
  readonly outcomes: Outcomes;
  /** Id of its first request in the run. */
  readonly firstId: number;
  readonly requestCount: number;
  /** Recorded arrival times, at speed 1. */
  #recordedNs: Float64Array | undefined;
  #trace: Trace | undefined;
  /** The same with `maxOutputTokens` of 1. */
  #prefillTrace: Trace | undefined;
  #columns: BlockColumns | undefined;
  /** Requests that have not ended. */
  #left: number;
  /** Arrival times as policies read them: at the router, then at the replica. Equal to `outcomes.arrivalNs` without a network. */
  readonly #receivedNs: Float64Array;

  /** `isRemote`: a network delays requests between the client and the replica. */
  constructor(trace: Trace, columns: BlockColumns, firstId: number, isRemote: boolean) {
    this.outcomes = newOutcomes(trace, columns);
    this.firstId = firstId;
    this.requestCount = this.#left = trace.requestCount;
    this.#recordedNs = trace.arrivalNs;
    this.#receivedNs = isRemote ? new Float64Array(trace.requestCount) : this.outcomes.arrivalNs;
    // Schedulers, routers and policies read the arrival times of this run, not the recorded ones.
    this.#trace = { ...trace, arrivalNs: this.#receivedNs };
    this.#columns = columns;
  }

  /** Content ids of its requests' blocks; undefined once they are released. */
  get columns(): BlockColumns | undefined {
    return this.#columns;
  }

  request(row: number): Request {
    const { trace, columns } = this.#live;
    return new Request(this.firstId + row, trace, row, columns);
  }

  /** The request as its prefill replica reads it: the client's limit is one output token. */
  prefillRequest(row: number): Request {
    const { trace, columns } = this.#live;
    this.#prefillTrace ??= { ...trace, maxOutputTokens: trace.maxOutputTokens.map((tokens) => Math.min(tokens, 1)) };
    return new Request(this.firstId + row, this.#prefillTrace, row, columns);
  }

  /** The trace and its content ids, until all requests have ended. */
  get #live(): { readonly trace: Trace; readonly columns: BlockColumns } {
    assert(this.#trace !== undefined && this.#columns !== undefined, "a batch has ended");
    return { trace: this.#trace, columns: this.#columns };
  }

  get trace(): Trace {
    return this.#live.trace;
  }

  /** The client has sent the request. */
  sent(row: number, nowNs: Nanos): void {
    this.outcomes.arrivalNs[row] = nowNs;
  }

  /** The request has arrived at the router or the replica. */
  received(row: number, nowNs: Nanos): void {
    this.#receivedNs[row] = nowNs;
  }

  recordedNs(row: number): Nanos {
    assert(this.#recordedNs !== undefined, "a batch has ended");
    return this.#recordedNs[row];
  }

  /** One of its requests has ended; with the last one the trace is released. */
  ended(keepsContents: boolean): void {
    if (--this.#left > 0) return;
    this.#trace = this.#prefillTrace = this.#recordedNs = undefined;
    if (!keepsContents) this.#columns = undefined;
  }

  /** Whether all requests have ended. */
  get hasEnded(): boolean {
    return this.#left === 0;
  }
}

/**
 * When requests arrive.
 *
 * `open`: at the recorded times. `closed`: the first turn of a session at its recorded time, every other turn its think time
 * after the turn before it has finished or was refused. `speed` divides recorded times and think times.
 *
 * With `concurrency`, recorded times and think times have no effect: that many requests arrive at the beginning, in the order of the
 * trace, and the next one whenever one has finished or was refused.
 */
export interface ArrivalOptions {
  readonly loop?: "open" | "closed";
  readonly speed?: number;
  /** The turns of all requests of a closed loop, so that it may begin before all have been fed; by default those that are fed. */
  readonly turns?: Turns | undefined;
  /** Requests in flight. */
  readonly concurrency?: number | undefined;
}

/**
 * The arrival process. `take` returns the requests that arrive at a recorded time, in their order; in a closed loop, every
 * later turn of a session is scheduled when `ended` is called for the turn before it.
 */
export class Arrivals {
  readonly #closed: boolean;
  readonly #speed: number;
  readonly #concurrency: number | undefined;
  readonly #keepsContents: boolean;
  readonly #isRemote: boolean;
  readonly #sink: ((outcomes: Outcomes) => void) | undefined;
  readonly #forgets: boolean;
  /** Batches in order; with a sink, from the first one that has not ended. */
  readonly #batches: TraceBatch[] = [];
  /** The batches that were passed to the sink. */
  readonly passedOn: { readonly outcomes: MeasuredOutcomes; readonly firstId: number }[] = [];
  #current = 0;
  #row = 0;
  #fed = 0;
  /** Whether no request is left that arrives at a recorded time, or in a free place of the concurrency, of those that were fed. */
  #isExhausted = true;
  /** With a concurrency: requests that have arrived and not ended, and when a place became free last. */
  #inFlight = 0;
  #freeNs: Nanos = 0;
  readonly #turns: Turns;
  /** Whether the turns are those of all requests, of which some may not have been fed. */
  readonly #hasAllTurns: boolean;
  /** Closed loop: all turns that follow arrived or scheduled requests, and the next one, are below this number. */
  #turnsEnd = 0;
  /**
   * Time of the next request that arrives at a recorded time, or in a free place of the concurrency; infinite if none is left of those
   * that were fed, or no place is free.
   */
  nextNs: Nanos = Number.POSITIVE_INFINITY;

  /**
   * `keepsContents`: content ids of batches whose requests have all ended are not released. `isRemote` as in `TraceBatch`. `sink`:
   * receives the outcomes of one batch after the other when all requests up to its last one have ended; only the columns of the
   * metrics are kept then; none with `forgets`.
   */
  constructor(
    { loop = "open", speed = 1, turns, concurrency }: ArrivalOptions = {},
    keepsContents = false,
    isRemote = false,
    sink?: (outcomes: Outcomes) => void,
    forgets = false,
  ) {
    if (!(speed > 0 && speed < Number.POSITIVE_INFINITY))
      throw new InputError(`speed is ${speed}, expected a number above 0`);
    this.#closed = loop === "closed";
    this.#speed = speed;
    this.#concurrency = concurrency;
    this.#turns = turns ?? new Turns();
    this.#hasAllTurns = turns !== undefined;
    this.#keepsContents = keepsContents;
    this.#isRemote = isRemote;
    this.#sink = sink;
    this.#forgets = forgets;
  }

  /** Whether the end of a request may cause an arrival. */
  get isClosed(): boolean {
    return this.#closed || this.#concurrency !== undefined;
  }
  get batches(): readonly TraceBatch[] {
    return this.#batches;
  }
  /** Requests fed so far. */
  get count(): number {
    return this.#fed;
  }

  /** Whether further requests must be fed before time can proceed, unless there are none. */
  get needsMore(): boolean {
    return this.#isExhausted || this.lacksTurns || (this.#closed && !this.#hasAllTurns);
  }

  /** Closed loop: a turn that follows a request that has arrived, or is the next one, has not been fed. */
  get lacksTurns(): boolean {
    return this.#turnsEnd > this.#fed;
  }

  feed(trace: Trace, columns: BlockColumns): void {
    const batch = new TraceBatch(trace, columns, this.#fed, this.#isRemote);
    this.#batches.push(batch);
    this.#fed += trace.requestCount;
    if (this.#closed && !this.#hasAllTurns) this.#turns.add(trace);
    if (this.#isExhausted) this.#findNext();
  }

  /** Takes the next request, which arrives at `nextNs`. */
  take(): number {
    const id = this.#batches[this.#current].firstId + this.#row;
    this.#row++;
    this.#inFlight++;
    this.#findNext();
    return id;
  }

  batchOf(id: number): TraceBatch {
    const batches = this.#batches;
    let at = batches.length - 1;
    // Usually it is in the last batch.
    if (batches[at].firstId > id) {
      let end = at;
      for (at = 0; end - at > 1; ) {
        const middle = (at + end) >> 1;
        if (batches[middle].firstId > id) end = middle;
        else at = middle;
      }
    }
    return batches[at];
  }

  /** The request has finished or was refused: calls `schedule` for every turn that follows it, with its arrival time. */
  ended(id: number, nowNs: Nanos, schedule: (id: number, arrivalNs: Nanos) => void): void {
    const batch = this.batchOf(id);
    batch.ended(this.#keepsContents);
    if (this.#sink && batch.hasEnded) this.#passOn(this.#sink);
    this.#inFlight--;
    if (this.#concurrency !== undefined) this.#freePlace(nowNs);
    if (!this.#closed) return;
    for (const turn of this.#turns.after(id)) {
      this.#expectTurnsAfter(turn);
      schedule(turn, nowNs + this.#thinkNs(turn));
    }
  }

  /** Passes on the batches before the first one that has not ended. */
  #passOn(sink: (outcomes: Outcomes) => void): void {
    while (this.#batches.length > 0 && this.#batches[0].hasEnded) {
      const { outcomes, firstId } = this.#batches.shift()!;
      sink(outcomes);
      if (!this.#forgets) this.passedOn.push({ outcomes: measuredColumns(outcomes), firstId });
      if (this.#current > 0) this.#current--;
      else this.#row = 0;
    }
  }

  #freePlace(nowNs: Nanos): void {
    this.#freeNs = nowNs;
    if (!this.#isExhausted) this.nextNs = nowNs;
  }

  #thinkNs(id: number): Nanos {
    const { trace, firstId } = this.batchOf(id);
    return Math.round((trace.optional.thinkNs?.[id - firstId] ?? 0) / this.#speed);
  }

  /** The turns that follow the request must be fed before it arrives, because it may end at once. */
  #expectTurnsAfter(id: number): void {
    this.#turnsEnd = Math.max(this.#turnsEnd, this.#turns.lastAfter(id) + 1);
  }

  /** Moves to the next row that arrives at a recorded time, or in a free place of the concurrency. */
  #findNext(): void {
    this.#isExhausted = false;
    for (; this.#current < this.#batches.length; this.#current++, this.#row = 0) {
      const batch = this.#batches[this.#current];
      while (this.#closed && this.#row < batch.requestCount && this.#turns.follows(batch.firstId + this.#row))
        this.#row++;
      if (this.#row < batch.requestCount) {
        if (this.#closed) this.#expectTurnsAfter(batch.firstId + this.#row);
        this.nextNs = this.#nextTimeNs(batch);
        return;
      }
      if (this.#current === this.#batches.length - 1) break;
    }
    this.#isExhausted = true;
    this.nextNs = Number.POSITIVE_INFINITY;
  }

  /** When the request of the current row arrives. */
  #nextTimeNs(batch: TraceBatch): Nanos {
    if (this.#concurrency === undefined) return Math.round(batch.recordedNs(this.#row) / this.#speed);
    return this.#inFlight < this.#concurrency ? this.#freeNs : Number.POSITIVE_INFINITY;
  }
}
