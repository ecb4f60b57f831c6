import { grown } from "../grown.ts";
import { type SignalName, signalNames } from "../plugins/signals.ts";
import type { Nanos } from "../trace/trace.ts";
import { EventRecord } from "./event-record.ts";
import { EventKind, eventNames, type LogEvent } from "./events.ts";

const initialRows = 1 << 8;

/** The columns of a log, of equal length. */
export type EventColumns = ReturnType<EventLog["columns"]>;

/**
 * Every decision of a replica, in order, as columns. Golden tests, the comparison of two targets, the laws and the
 * dashboard's history read it. The methods named after events encode them; `events` and `eventAt` decode.
 */
export class EventLog {
  count = 0;
  /** Events before the first one that is stored. */
  dropped = 0;
  /** Index of the first event after the warm-up, dropped events included. */
  measuredFrom = 0;
  #kind = new Uint8Array(initialRows);
  #timeNs = new Float64Array(initialRows);
  #request = new Int32Array(initialRows);
  #block = new Int32Array(initialRows);
  #key = new Float64Array(initialRows);
  #value = new Int32Array(initialRows);

  admit(timeNs: Nanos, request: number, hitTokens: number, hitBlocks: number): void {
    this.add(EventKind.admit, timeNs, request, -1, hitTokens, hitBlocks);
  }

  hit(timeNs: Nanos, request: number, block: number, content: number, place: number): void {
    this.add(EventKind.hit, timeNs, request, block, content, place);
  }

  adopt(timeNs: Nanos, request: number, block: number, content: number, place: number): void {
    this.add(EventKind.adopt, timeNs, request, block, content, place);
  }

  /** `reason`: a value of `Miss`. */
  miss(timeNs: Nanos, request: number, content: number, reason: number): void {
    this.add(EventKind.miss, timeNs, request, -1, content, reason);
  }

  evict(timeNs: Nanos, request: number, block: number, content: number, endToken: number): void {
    this.add(EventKind.evict, timeNs, request, block, content, endToken);
  }

  drop(timeNs: Nanos, request: number, block: number, content: number, endToken: number): void {
    this.add(EventKind.drop, timeNs, request, block, content, endToken);
  }

  allocate(timeNs: Nanos, request: number, block: number, place: number): void {
    this.add(EventKind.allocate, timeNs, request, block, -1, place);
  }

  copy(timeNs: Nanos, request: number, block: number, sourceBlock: number, place: number): void {
    this.add(EventKind.copy, timeNs, request, block, sourceBlock, place);
  }

  step(timeNs: Nanos, requests: number, tokens: number): void {
    this.add(EventKind.step, timeNs, -1, -1, requests, tokens);
  }

  publish(timeNs: Nanos, request: number, block: number, content: number, place: number): void {
    this.add(EventKind.publish, timeNs, request, block, content, place);
  }

  duplicate(timeNs: Nanos, request: number, block: number, keptBlock: number, place: number): void {
    this.add(EventKind.duplicate, timeNs, request, block, keptBlock, place);
  }

  release(timeNs: Nanos, request: number, block: number, keptCached: boolean): void {
    this.add(EventKind.release, timeNs, request, block, -1, keptCached ? 1 : 0);
  }

  finish(timeNs: Nanos, request: number, outputTokens: number): void {
    this.add(EventKind.finish, timeNs, request, -1, outputTokens, -1);
  }

  refuse(timeNs: Nanos, request: number): void {
    this.add(EventKind.refuse, timeNs, request, -1, -1, -1);
  }

  preempt(timeNs: Nanos, request: number): void {
    this.add(EventKind.preempt, timeNs, request, -1, -1, -1);
  }

  swapOut(timeNs: Nanos, request: number, tokens: number, blocks: number): void {
    this.add(EventKind.swapOut, timeNs, request, -1, tokens, blocks);
  }

  swapIn(timeNs: Nanos, request: number, tokens: number, blocks: number): void {
    this.add(EventKind.swapIn, timeNs, request, -1, tokens, blocks);
  }

  send(timeNs: Nanos, request: number, tokens: number, blocks: number): void {
    this.add(EventKind.send, timeNs, request, -1, tokens, blocks);
  }

  receive(timeNs: Nanos, request: number, tokens: number, blocks: number): void {
    this.add(EventKind.receive, timeNs, request, -1, tokens, blocks);
  }

  trim(timeNs: Nanos, request: number, rejectedBlock: number, place: number): void {
    this.add(EventKind.trim, timeNs, request, -1, rejectedBlock, place);
  }

  clear(timeNs: Nanos, blocks: number): void {
    this.add(EventKind.clear, timeNs, -1, -1, blocks, -1);
  }

  /** `prefix`: the id of the pinned prefix, below −1. */
  pin(timeNs: Nanos, prefix: number, block: number, content: number, place: number): void {
    this.add(EventKind.pin, timeNs, prefix, block, content, place);
  }

  unpin(timeNs: Nanos, prefix: number): void {
    this.add(EventKind.unpin, timeNs, prefix, -1, -1, -1);
  }

  signal(timeNs: Nanos, request: number, session: number, name: SignalName): void {
    this.add(EventKind.signal, timeNs, request, -1, session, signalNames.indexOf(name));
  }

  /** Appends a row of another log or of a file. */
  add(kind: number, timeNs: Nanos, request: number, block: number, key: number, value: number): void {
    const at = this.count++;
    if (at === this.#kind.length) this.#grow();
    this.#kind[at] = kind;
    this.#timeNs[at] = timeNs;
    this.#request[at] = request;
    this.#block[at] = block;
    this.#key[at] = key;
    this.#value[at] = value;
  }

  /** Event `at`, decoded into `record`, or into a new one. */
  eventAt(at: number, record = new EventRecord()): LogEvent {
    return record.decode(
      at,
      this.#kind[at],
      this.#timeNs[at],
      this.#request[at],
      this.#block[at],
      this.#key[at],
      this.#value[at],
    );
  }

  /** Events `[from, to)` in order, decoded into one record: an event is valid until the next one is read. */
  events(from = 0, to = this.count): Iterable<LogEvent> {
    return new EventCursor(this, from, to);
  }

  /** Drops all but the last `count` events, for readers that keep up with a long run. */
  keepLast(count: number): void {
    const from = Math.max(0, this.count - count);
    if (from === 0) return;
    for (const column of Object.values(this.columns())) column.copyWithin(0, from);
    this.count -= from;
    this.dropped += from;
  }

  /** The columns of all events so far; views, not copies. */
  columns() {
    const n = this.count;
    return {
      kind: this.#kind.subarray(0, n),
      timeNs: this.#timeNs.subarray(0, n),
      request: this.#request.subarray(0, n),
      block: this.#block.subarray(0, n),
      key: this.#key.subarray(0, n),
      value: this.#value.subarray(0, n),
    };
  }

  /** One row as a line, for messages and golden files. */
  line(at: number): string {
    const fields = [this.#request[at], this.#block[at], this.#key[at], this.#value[at]];
    return `${this.#timeNs[at]} ${eventNames[this.#kind[at]]} ${fields.join(" ")}`;
  }

  #grow(): void {
    const length = this.#kind.length * 2;
    this.#kind = grown(this.#kind, length);
    this.#timeNs = grown(this.#timeNs, length);
    this.#request = grown(this.#request, length);
    this.#block = grown(this.#block, length);
    this.#key = grown(this.#key, length);
    this.#value = grown(this.#value, length);
  }
}

/** Iterates without allocating per event: the cursor is also the result of each iteration. */
class EventCursor implements IterableIterator<LogEvent> {
  done = false;
  value: LogEvent;
  readonly #log: EventLog;
  readonly #record = new EventRecord();
  readonly #to: number;
  #at: number;

  constructor(log: EventLog, from: number, to: number) {
    this.#log = log;
    this.#at = from;
    this.#to = to;
    this.value = this.#record as LogEvent;
  }

  [Symbol.iterator](): this {
    return this;
  }

  next(): this {
    if (this.#at < this.#to) this.#log.eventAt(this.#at++, this.#record);
    else this.done = true;
    return this;
  }
}
