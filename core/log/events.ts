import { grown } from "../grown.ts";
import type { Nanos } from "../trace/trace.ts";

/** What can happen, in the order in which it happens to a request. */
export const EventKind = {
  /** key = hit tokens, value = blocks that it holds from the cache. */
  admit: 0,
  /** A block of the matched prefix is used; value = its place in the prompt. */
  hit: 1,
  /** A resident block past a hole is held, to be computed again in place. */
  adopt: 2,
  /** A prompt block has to be computed; value = MissReason. */
  miss: 3,
  /** An entry goes; block = the entry, value = its end in tokens. */
  evict: 4,
  /** block = the new block, value = its place in the request. */
  allocate: 5,
  /** Copy-on-write; block = target, key = source block. */
  copy: 6,
  /** A step of the model; key = sequences in it, value = tokens computed. */
  step: 7,
  /** block can be found from now on. */
  publish: 8,
  /** Equal content was there: block gives way to key (a block). */
  duplicate: 9,
  /** Its last holder let the block go; value = 1 if it stays cached. */
  release: 10,
  /** key = generated tokens. */
  finish: 11,
  /** Given up: it can never fit. */
  refuse: 12,
  /** Back to the queue. */
  preempt: 13,
  /** The index forgot an entry that was not a victim. */
  drop: 14,
  /** An operator empties the cache; key = blocks that were cached, and whose `evict` or `drop` follow. */
  clear: 15,
  /** An operator keeps a cached block; key = its content, value = its place in the prefix. */
  pin: 16,
  /** All of what was pinned as this request is let go. */
  unpin: 17,
  /** A preempted request's contents go to the host; key = tokens, value = blocks. */
  swapOut: 18,
  /** They come back, as far as they are not cached; key = tokens, value = blocks. */
  swapIn: 19,
} as const;
export type EventName = keyof typeof EventKind;
export const eventNames = Object.keys(EventKind) as EventName[];

/**
 * Everything that was decided, in order, as columns: the source of the golden tests, of the proof that two targets
 * decide alike, and of the dashboard's time travel. Unused fields are −1.
 */
export class EventLog {
  count = 0;
  /** Events that came before the first one that is kept. */
  dropped = 0;
  #kind = new Uint8Array(1 << 12);
  #timeNs = new Float64Array(1 << 12);
  #request = new Int32Array(1 << 12);
  #block = new Int32Array(1 << 12);
  #key = new Float64Array(1 << 12);
  #value = new Int32Array(1 << 12);

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

  /** Forgets all but the last `count` events: for readers that keep up with a long run. */
  keepLast(count: number): void {
    const from = Math.max(0, this.count - count);
    if (from === 0) return;
    for (const column of Object.values(this.columns())) column.copyWithin(0, from);
    this.count -= from;
    this.dropped += from;
  }

  /** The columns up to now; views, not copies. */
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

  /** One event as a line, for messages and golden files. */
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
