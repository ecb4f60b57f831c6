import { Request } from "../cache/request.ts";
import { assert, InputError } from "../errors.ts";
import type { BlockColumns } from "../trace/content.ts";
import { Sessions } from "../trace/sessions.ts";
import type { Nanos, Trace } from "../trace/trace.ts";
import { newOutcomes, type Outcomes } from "./outcomes.ts";

/**
 * A trace, or a part of one, that is on its way through the simulation. When all of its requests have ended, only what
 * became of them is kept, so that a long run takes no more memory than its outcomes.
 */
export class TraceBatch {
  readonly outcomes: Outcomes;
  /** Number of its first request in the run. */
  readonly firstId: number;
  readonly requestCount: number;
  /** When its requests came in the record. */
  #recordedNs: Float64Array | undefined;
  #trace: Trace | undefined;
  #columns: BlockColumns | undefined;
  /** Requests that have not ended. */
  #left: number;

  constructor(trace: Trace, columns: BlockColumns, firstId: number) {
    this.outcomes = newOutcomes(trace, columns);
    this.firstId = firstId;
    this.requestCount = this.#left = trace.requestCount;
    this.#recordedNs = trace.arrivalNs;
    // To schedulers, routers and policies a request came when it came here, at this speed and after those answers.
    this.#trace = { ...trace, arrivalNs: this.outcomes.arrivalNs };
    this.#columns = columns;
  }

  /** Content ids of its requests' blocks, as long as they are kept. */
  get columns(): BlockColumns | undefined {
    return this.#columns;
  }

  request(row: number): Request {
    const { trace, columns } = this.#live;
    return new Request(this.firstId + row, trace, row, columns);
  }

  /** Of requests that have not all ended. */
  get #live(): { readonly trace: Trace; readonly columns: BlockColumns } {
    assert(this.#trace !== undefined && this.#columns !== undefined, "a batch has ended");
    return { trace: this.#trace, columns: this.#columns };
  }

  get trace(): Trace {
    return this.#live.trace;
  }

  recordedNs(row: number): Nanos {
    assert(this.#recordedNs !== undefined, "a batch has ended");
    return this.#recordedNs[row];
  }

  /** One of its requests has ended. */
  ended(keepsContents: boolean): void {
    if (--this.#left > 0) return;
    this.#trace = this.#recordedNs = undefined;
    if (!keepsContents) this.#columns = undefined;
  }
}

/**
 * When requests arrive.
 *
 * `open`: as recorded. `closed`: the first turn of a session as recorded, and every other one its think time after the turn
 * before it has ended, however long that took. Both as many times faster as `speed` says.
 */
export interface ArrivalOptions {
  readonly loop?: "open" | "closed";
  readonly speed?: number;
}

/** Feeds requests in their order: those that do not wait for another one. The others are woken by `ended`. */
export class Arrivals {
  readonly #closed: boolean;
  readonly #speed: number;
  readonly #keepsContents: boolean;
  readonly #batches: TraceBatch[] = [];
  #current = 0;
  #row = 0;
  #fed = 0;
  /** For a closed loop: turns that wait for a request to end, and where the last turn of each session is. */
  readonly #children = new Map<number, number[]>();
  readonly #sessions = new Sessions();
  readonly #lastOfSession = new Map<number, number>();
  /** Turns that wait for another one, and that the reader of rows has not come to. */
  readonly #waiting = new Set<number>();
  /** Time of the next request of those that wait for none; infinite if the last one of what was fed is through. */
  nextNs: Nanos = Number.POSITIVE_INFINITY;

  /** `keepsContents`: content ids of batches that have ended are kept, too. */
  constructor({ loop = "open", speed = 1 }: ArrivalOptions = {}, keepsContents = false) {
    if (!(speed > 0 && speed < Number.POSITIVE_INFINITY))
      throw new InputError(`speed is ${speed}, expected a number above 0`);
    this.#closed = loop === "closed";
    this.#speed = speed;
    this.#keepsContents = keepsContents;
  }

  get isClosed(): boolean {
    return this.#closed;
  }
  get batches(): readonly TraceBatch[] {
    return this.#batches;
  }
  /** Requests fed so far. */
  get count(): number {
    return this.#fed;
  }

  feed(trace: Trace, columns: BlockColumns): void {
    const batch = new TraceBatch(trace, columns, this.#fed);
    this.#batches.push(batch);
    this.#fed += trace.requestCount;
    if (this.#closed) {
      const sessions = this.#sessions.of(trace);
      for (let row = 0; row < trace.requestCount; row++) this.#link(batch, row, sessions[row]);
    }
    if (this.nextNs === Number.POSITIVE_INFINITY) this.#findNext();
  }

  /** Takes the next request, which arrives at `nextNs`. */
  take(): number {
    const id = this.#batches[this.#current].firstId + this.#row;
    this.#row++;
    this.#findNext();
    return id;
  }

  batchOf(id: number): TraceBatch {
    const batches = this.#batches;
    let at = batches.length - 1;
    // Most often it is one of the last ones.
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

  /** The request has ended (or was refused): calls `wake` for every turn that waited for it, with its arrival. */
  ended(id: number, nowNs: Nanos, wake: (id: number, arrivalNs: Nanos) => void): void {
    this.batchOf(id).ended(this.#keepsContents);
    const children = this.#children.get(id);
    if (!children) return;
    this.#children.delete(id);
    for (const child of children) wake(child, nowNs + this.#thinkNs(child));
  }

  #thinkNs(id: number): Nanos {
    const { trace, firstId } = this.batchOf(id);
    return Math.round((trace.optional.thinkNs?.[id - firstId] ?? 0) / this.#speed);
  }

  /** In a closed loop: the turn before this one, if it has one. Nothing has ended yet: all is linked before it begins. */
  #link({ trace, firstId }: TraceBatch, row: number, sessionNumber: number): void {
    const { parent, session, thinkNs } = trace.optional;
    const id = firstId + row;
    const think = thinkNs?.[row] ?? 0;
    if (!(think >= 0)) throw new InputError(`request ${id} has a think time of ${think} ns, expected 0 or more`);
    const before = (parent?.[row] ?? -1) >= 0 ? parent![row] : this.#lastOfSession.get(sessionNumber);
    if ((session?.[row] ?? 0) > 0) this.#lastOfSession.set(sessionNumber, id);
    if (before === undefined) return;
    if (before >= id) throw new InputError(`request ${id} continues request ${before}, expected one before it`);
    const children = this.#children.get(before);
    if (children) children.push(id);
    else this.#children.set(before, [id]);
    this.#waiting.add(id);
  }

  /** The next row that waits for nobody. */
  #findNext(): void {
    for (; this.#current < this.#batches.length; this.#current++, this.#row = 0) {
      const batch = this.#batches[this.#current];
      while (this.#closed && this.#row < batch.requestCount && this.#waiting.delete(batch.firstId + this.#row))
        this.#row++;
      if (this.#row < batch.requestCount) {
        this.nextNs = Math.round(batch.recordedNs(this.#row) / this.#speed);
        return;
      }
      if (this.#current === this.#batches.length - 1) break;
    }
    this.nextNs = Number.POSITIVE_INFINITY;
  }
}
