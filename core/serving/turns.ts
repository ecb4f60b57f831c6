import { InputError } from "../errors.ts";
import { grown } from "../grown.ts";
import { Sessions } from "../trace/sessions.ts";
import type { Trace } from "../trace/trace.ts";

const none = -1;

/**
 * Which request follows which in a closed loop: a turn follows its parent, or the turn before it in its session. Batches are
 * added in order; 8 bytes per request.
 */
export class Turns {
  /** Requests of the batches so far. */
  count = 0;
  /** Whether a request follows another one. */
  hasAny = false;
  readonly #sessions = new Sessions();
  readonly #lastOfSession = new Map<number, number>();
  /** By request: the last of the turns that follow it. */
  #last = new Int32Array(1024);
  /** By turn: the next one that follows the same request; after the last one the first. */
  #next = new Int32Array(1024);

  /** @throws InputError for a negative think time, or a turn before its parent */
  add(trace: Trace): void {
    const { requestCount } = trace;
    const { parent, session, thinkNs } = trace.optional;
    const end = this.count + requestCount;
    if (end > this.#last.length) {
      this.#last = grown(this.#last, Math.max(end, 2 * this.#last.length));
      this.#next = grown(this.#next, this.#last.length);
    }
    this.#last.fill(none, this.count, end);
    this.#next.fill(none, this.count, end);
    const sessions = this.#sessions.of(trace);
    for (let row = 0; row < requestCount; row++) {
      const id = this.count + row;
      const think = thinkNs?.[row] ?? 0;
      if (!(think >= 0)) throw new InputError(`request ${id} has a think time of ${think} ns, expected 0 or more`);
      const previous = (parent?.[row] ?? none) >= 0 ? parent![row] : this.#lastOfSession.get(sessions[row]);
      if ((session?.[row] ?? 0) > 0) this.#lastOfSession.set(sessions[row], id);
      if (previous === undefined) continue;
      if (previous >= id) throw new InputError(`request ${id} continues request ${previous}, expected an earlier one`);
      this.#append(id, previous);
    }
    this.count = end;
  }

  /** Whether the request follows another one. */
  follows(id: number): boolean {
    return this.#next[id] !== none;
  }

  /** The last of the turns that follow the request; −1 if there is none. */
  lastAfter(id: number): number {
    return this.#last[id];
  }

  /** The turns that follow the request, in order. */
  *after(id: number): Generator<number> {
    const last = this.#last[id];
    if (last === none) return;
    let turn = last;
    do {
      turn = this.#next[turn];
      yield turn;
    } while (turn !== last);
  }

  #append(id: number, previous: number): void {
    const last = this.#last[previous];
    this.#next[id] = last === none ? id : this.#next[last];
    if (last !== none) this.#next[last] = id;
    this.#last[previous] = id;
    this.hasAny = true;
  }
}
