import { grown } from "../../core/grown.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import type { Nanos, Trace } from "../../core/trace/trace.ts";

/** A request of a session in numbers, without content. */
export interface Turn {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Time since the turn before; of a first turn: since the first turn of the session before. */
  readonly gapNs: Nanos;
  /** Time between the end of the turn before and this arrival, if the trace states it. */
  readonly thinkNs: Nanos | undefined;
  /** Blocks with a content id. */
  readonly blocks: number;
  /** Leading blocks that earlier requests had. */
  readonly seen: number;
  /** Turn of this session that used the deepest of these blocks last; undefined: a request of another session. */
  readonly from: number | undefined;
  /** Requests since that use. */
  readonly age: number;
}

/** The turns of a session. A request without a session is a session of one turn. */
export type SessionTurns = readonly Turn[];

/** Most turns that are kept. */
const mostTurns = 1 << 17;
const none = 0xffff_ffff;

/**
 * An empirical model of a trace: its sessions with lengths, times and the depth of shared prefixes of each turn. If the trace
 * has no sessions, a request whose prompt begins with all whole blocks of an earlier request, the last of which no other
 * session has, is the next turn of that request's session. Of a large trace every second, fourth … session is kept.
 */
export class TraceModel {
  readonly unitTokens: number;
  requests = 0;
  /** Number of sessions. */
  sessions = 0;
  /** Time from the first turn of the last session to the last request. */
  tailNs: Nanos = 0;
  /** Whether the trace names its sessions. */
  hasSessions = false;
  /** Session n is at n ÷ `stride`, if that is an integer. */
  stride = 1;
  samples: Turn[][] = [];
  #kept = 0;
  #lastStartNs: Nanos = 0;
  /** By block: row, session and turn of its last use, and whether several sessions used it. */
  #row: Uint32Array = new Uint32Array(0);
  #session: Uint32Array = new Uint32Array(0);
  #turn: Uint32Array = new Uint32Array(0);
  #isShared: Uint8Array = new Uint8Array(0);
  /** By session: number of turns, arrival of the last turn, and the whole blocks of its prompt. */
  #turns: Uint32Array = new Uint32Array(1024);
  #lastNs: Float64Array = new Float64Array(1024);
  #lastWhole: Uint32Array = new Uint32Array(1024);
  /** By session id of the trace: number of the session from 1; 0 = none. */
  #numbers: Uint32Array = new Uint32Array(1024);

  constructor(unitTokens: number) {
    this.unitTokens = unitTokens;
  }

  /** Adds a batch; without blocks, as in a trace of lengths, nothing is shared. */
  add(batch: Trace, blocks: BlockColumns | undefined): void {
    if (blocks && blocks.distinct > this.#row.length) this.#growBlocks(blocks.distinct);
    for (let r = 0; r < batch.requestCount; r++) {
      const start = blocks?.start[r] ?? 0;
      const keys = blocks?.keys.subarray(start, start + blocks.promptBlocks[r]);
      this.#addRequest(batch, r, keys ?? new Uint32Array(0));
    }
  }

  #addRequest(batch: Trace, r: number, keys: Uint32Array): void {
    const row = this.requests++;
    const [inputTokens, arrivalNs] = [batch.inputTokens[r], batch.arrivalNs[r]];
    const whole = Math.min(keys.length, Math.floor(inputTokens / this.unitTokens));
    let seen = 0;
    while (seen < keys.length && this.#row[keys[seen]] !== none) seen++;
    const id = batch.optional.session?.[r] ?? 0;
    if (id > 0) this.hasSessions = true;
    const known = this.hasSessions ? this.#named(id) : this.#continued(keys, Math.min(seen, whole));
    const session = known ?? this.#begin(id);
    const turn = this.#turns[session]++;
    const deepest = seen > 0 ? keys[seen - 1] : none;
    const isOwn = seen > 0 && this.#session[deepest] === session;
    this.#keep(session, {
      ...{ inputTokens, outputTokens: batch.outputTokens[r] },
      gapNs: arrivalNs - (turn === 0 ? this.#lastStartNs : this.#lastNs[session]),
      thinkNs: turn > 0 ? batch.optional.thinkNs?.[r] : undefined,
      ...{ blocks: keys.length, seen },
      from: isOwn ? this.#turn[deepest] : undefined,
      age: seen > 0 ? row - this.#row[deepest] : 0,
    });
    if (turn === 0) this.#lastStartNs = arrivalNs;
    this.tailNs = arrivalNs - this.#lastStartNs;
    this.#lastNs[session] = arrivalNs;
    this.#lastWhole[session] = whole;
    for (const key of keys) this.#use(key, row, session, turn);
  }

  /** The session with this id, if it had a turn before. */
  #named(id: number): number | undefined {
    const number = id < this.#numbers.length ? this.#numbers[id] : 0;
    return number > 0 ? number - 1 : undefined;
  }

  /** The session that a prompt with this many seen whole blocks continues. */
  #continued(keys: Uint32Array, seen: number): number | undefined {
    if (seen === 0) return undefined;
    const deepest = keys[seen - 1];
    const session = this.#session[deepest];
    const last = this.#lastWhole[session];
    if (last === 0 || seen < last || this.#isShared[deepest] === 1) return undefined;
    // The last prompt's last block, which is not the deepest one if an earlier turn was longer.
    return this.#isShared[keys[last - 1]] === 0 ? session : undefined;
  }

  #begin(id: number): number {
    const session = this.sessions++;
    if (session === this.#turns.length) {
      this.#turns = grown(this.#turns, 2 * session);
      this.#lastNs = grown(this.#lastNs, 2 * session);
      this.#lastWhole = grown(this.#lastWhole, 2 * session);
    }
    if (id === 0) return session;
    if (id >= this.#numbers.length) this.#numbers = grown(this.#numbers, Math.max(id + 1, 2 * this.#numbers.length));
    this.#numbers[id] = session + 1;
    return session;
  }

  #keep(session: number, turn: Turn): void {
    if (session % this.stride !== 0) return;
    const at = session / this.stride;
    if (at === this.samples.length) this.samples.push([turn]);
    else this.samples[at].push(turn);
    this.#kept++;
    while (this.#kept > mostTurns && this.samples.length > 1) {
      this.samples = this.samples.filter((_, i) => i % 2 === 0);
      this.stride *= 2;
      this.#kept = this.samples.reduce((sum, turns) => sum + turns.length, 0);
    }
  }

  #use(key: number, row: number, session: number, turn: number): void {
    if (this.#row[key] !== none && this.#session[key] !== session) this.#isShared[key] = 1;
    this.#row[key] = row;
    this.#session[key] = session;
    this.#turn[key] = turn;
  }

  #growBlocks(distinct: number): void {
    const known = this.#row.length;
    const length = Math.max(distinct, 2 * known);
    this.#row = grown(this.#row, length).fill(none, known);
    this.#session = grown(this.#session, length);
    this.#turn = grown(this.#turn, length);
    this.#isShared = grown(this.#isShared, length);
  }
}
