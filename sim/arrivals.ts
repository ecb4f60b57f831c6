import type { BlockColumns } from "../core/content.ts";
import { InputError } from "../core/errors.ts";
import type { Nanos, Trace } from "../core/trace.ts";
import { newOutcomes, type Outcomes } from "./outcomes.ts";

/** A trace, or a part of one, that is on its way through the simulation. */
export interface Batch {
  readonly trace: Trace;
  readonly columns: BlockColumns;
  readonly outcomes: Outcomes;
  /** Number of its first request in the run. */
  readonly firstId: number;
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
  readonly #batches: Batch[] = [];
  #current = 0;
  #row = 0;
  #fed = 0;
  /** For a closed loop: turns that wait for a request to end, and where the last turn of each session is. */
  readonly #children = new Map<number, number[]>();
  readonly #lastOfSession = new Map<number, number>();
  /** Requests that have ended, and those that are still to come; a turn whose turn before has ended need not wait. */
  readonly #open = new Set<number>();
  readonly #waiting = new Set<number>();
  /** Time of the next request of those that wait for none; infinite if the last one of what was fed is through. */
  nextNs: Nanos = Number.POSITIVE_INFINITY;

  constructor({ loop = "open", speed = 1 }: ArrivalOptions = {}) {
    this.#closed = loop === "closed";
    this.#speed = speed;
  }

  get isClosed(): boolean {
    return this.#closed;
  }
  get batches(): readonly Batch[] {
    return this.#batches;
  }
  /** Requests fed so far. */
  get count(): number {
    return this.#fed;
  }

  feed(trace: Trace, columns: BlockColumns): void {
    const batch = { trace, columns, outcomes: newOutcomes(trace, columns), firstId: this.#fed };
    this.#batches.push(batch);
    this.#fed += trace.requestCount;
    if (this.#closed) for (let row = 0; row < trace.requestCount; row++) this.#link(batch, row);
    if (this.nextNs === Number.POSITIVE_INFINITY) this.#findNext();
  }

  /** Takes the next request, which arrives at `nextNs`. */
  take(): number {
    const id = this.#batches[this.#current].firstId + this.#row;
    this.#row++;
    this.#findNext();
    return id;
  }

  batchOf(id: number): Batch {
    const batches = this.#batches;
    let at = batches.length - 1;
    while (batches[at].firstId > id) at--;
    return batches[at];
  }

  /** The request has ended (or was refused): calls `wake` for every turn that waited for it, with its arrival. */
  ended(id: number, nowNs: Nanos, wake: (id: number, arrivalNs: Nanos) => void): void {
    if (!this.#closed) return;
    this.#open.delete(id);
    const children = this.#children.get(id);
    if (!children) return;
    this.#children.delete(id);
    for (const child of children) wake(child, nowNs + this.#thinkNs(child));
  }

  #thinkNs(id: number): Nanos {
    const { trace, firstId } = this.batchOf(id);
    return Math.round((trace.optional.thinkNs?.[id - firstId] ?? 0) / this.#speed);
  }

  /** In a closed loop: the turn before this one, if it has one that has not ended. */
  #link({ trace, firstId }: Batch, row: number): void {
    const { parent, session } = trace.optional;
    const id = firstId + row;
    const inSession = session?.[row] ?? 0;
    const before =
      (parent?.[row] ?? -1) >= 0 ? parent![row] : inSession > 0 ? this.#lastOfSession.get(inSession) : undefined;
    if (inSession > 0) this.#lastOfSession.set(inSession, id);
    this.#open.add(id);
    if (before !== undefined && before >= id)
      throw new InputError(`request ${id} continues request ${before}, expected one before it`);
    if (before === undefined || !this.#open.has(before)) return;
    const children = this.#children.get(before);
    if (children) children.push(id);
    else this.#children.set(before, [id]);
    this.#waiting.add(id);
  }

  /** The next row that waits for nobody. */
  #findNext(): void {
    for (; this.#current < this.#batches.length; this.#current++, this.#row = 0) {
      const { trace, firstId } = this.#batches[this.#current];
      while (this.#closed && this.#row < trace.requestCount && this.#waiting.delete(firstId + this.#row)) this.#row++;
      if (this.#row < trace.requestCount) {
        this.nextNs = Math.round(trace.arrivalNs[this.#row] / this.#speed);
        return;
      }
      if (this.#current === this.#batches.length - 1) break;
    }
    this.nextNs = Number.POSITIVE_INFINITY;
  }
}
