import type { ServerResponse } from "node:http";

/** A client that reads nothing for this long is disconnected. */
const stallMs = 60_000;

/**
 * Server-sent events to a client that may read slowly. While the connection's buffer is full, nothing is written: events are made
 * when the client can read them, from all that has been generated until then, so that memory is bounded by the outputs.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #flush: () => void;
  #stalled: NodeJS.Timeout | undefined;
  #isFull = false;

  /** `flush` is called when the client can read again. */
  constructor(response: ServerResponse, flush: () => void) {
    this.#response = response;
    this.#flush = flush;
    response.writeHead(200, {
      ...{ "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" },
      ...{ connection: "keep-alive", "x-accel-buffering": "no" },
    });
    response.flushHeaders();
    response.on("drain", () => {
      this.#isFull = false;
      clearTimeout(this.#stalled);
      this.#flush();
    });
    response.on("close", () => clearTimeout(this.#stalled));
  }

  /** Whether events may be written. */
  get isReady(): boolean {
    return !this.#isFull && !this.#response.destroyed;
  }

  write(document: object | "[DONE]"): void {
    const text = document === "[DONE]" ? document : JSON.stringify(document);
    if (this.#response.write(`data: ${text}\n\n`) || this.#isFull) return;
    this.#isFull = true;
    this.#stalled = setTimeout(() => this.#response.destroy(), stallMs).unref();
  }

  end(): void {
    this.#response.end();
  }
}
