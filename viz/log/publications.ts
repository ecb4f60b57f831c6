import { grown } from "../../core/grown.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import { EventRecord } from "../../core/log/event-record.ts";
import type { EventOf } from "../../core/log/events.ts";

/**
 * All publications of a log. A publication is numbered by its position among the log's `publish` events, a content by its
 * position among the distinct contents that were published.
 */
export class Publications {
  count = 0;
  /** Index of the `publish` event. */
  event = new Int32Array(1024);
  /** The publication of the preceding block of the request; −1: there is none that is cached. */
  parent = new Int32Array(1024);
  /** Number of the content. */
  content = new Int32Array(1024);
  /** Number of the group of blocks that one request published at the same time. */
  batch = new Int32Array(1024);
  readonly #numbers = new Map<number, number>();
  readonly #log: EventLog;
  readonly #record = new EventRecord();

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Number of distinct contents. */
  get contents(): number {
    return this.#numbers.size;
  }

  request(publication: number): number {
    return this.#eventOf(publication).request;
  }

  block(publication: number): number {
    return this.#eventOf(publication).block;
  }

  place(publication: number): number {
    return this.#eventOf(publication).place;
  }

  #eventOf(publication: number): EventOf<"publish"> {
    return this.#log.eventAt(this.event[publication], this.#record) as EventOf<"publish">;
  }

  /** `isSameBatch`: published by the same request and at the same time as the one before. */
  add(event: number, parent: number, contentId: number, isSameBatch: boolean): void {
    const at = this.count++;
    if (at === this.event.length) {
      this.event = grown(this.event, 2 * at);
      this.parent = grown(this.parent, 2 * at);
      this.content = grown(this.content, 2 * at);
      this.batch = grown(this.batch, 2 * at);
    }
    let content = this.#numbers.get(contentId);
    if (content === undefined) this.#numbers.set(contentId, (content = this.#numbers.size));
    this.event[at] = event;
    this.parent[at] = parent;
    this.content[at] = content;
    this.batch[at] = at === 0 ? 0 : this.batch[at - 1] + (isSameBatch ? 0 : 1);
  }
}
