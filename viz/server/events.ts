import type { Request, Response } from "express";
import type { ServerEvent } from "../api.ts";
import { Refusal } from "./refusal.ts";

interface Client {
  readonly response: Response;
  /** Events that have not been sent to it yet. */
  readonly pending: Set<ServerEvent>;
  /** Number of successive pings while its buffer was full. */
  stalled: number;
  isFull: boolean;
}

const mostClients = 32;
/** Changes within this time are sent as one event. */
const settleMs = 50;
/** After so many successive pings that a client did not read, its connection is closed. */
const mostStalled = 3;

/**
 * Server-sent events. An event carries the new state of a list: a client that does not read is sent the newest state when it
 * reads again, so that at most one message of each kind is pending.
 */
export class Events {
  readonly #clients = new Set<Client>();
  readonly #data: Readonly<Record<ServerEvent, () => unknown>>;
  readonly #ping: NodeJS.Timeout;
  #timer: NodeJS.Timeout | undefined;

  /** `data`: the current state, for each event. */
  constructor(data: Readonly<Record<ServerEvent, () => unknown>>, pingMs = 10_000) {
    this.#data = data;
    this.#ping = setInterval(() => this.#checkAll(), pingMs).unref();
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  /** Handles GET /api/events. @throws Refusal if there are too many clients */
  add(request: Request, response: Response): void {
    if (this.#clients.size >= mostClients) throw new Refusal(503, `${mostClients} pages are open, no more can be`);
    const client: Client = { response, pending: new Set(["runs", "jobs", "live"]), stalled: 0, isFull: false };
    response.status(200).set({ "content-type": "text/event-stream", "x-accel-buffering": "no" });
    request.socket.setNoDelay(true);
    response.write("retry: 2000\n\n");
    response.on("drain", () => {
      client.isFull = false;
      client.stalled = 0;
      this.#send(client);
    });
    const forget = () => this.#clients.delete(client);
    response.on("close", forget).on("error", forget);
    this.#clients.add(client);
    this.#send(client);
  }

  /** Sends the event to all clients, after `settleMs`. */
  changed(event: ServerEvent): void {
    if (this.#clients.size === 0) return;
    for (const { pending } of this.#clients) pending.add(event);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      for (const client of this.#clients) this.#send(client);
    }, settleMs).unref();
  }

  close(): void {
    clearInterval(this.#ping);
    clearTimeout(this.#timer);
    for (const { response } of this.#clients) response.end();
    this.#clients.clear();
  }

  #send(client: Client): void {
    for (const event of client.pending) {
      if (client.isFull) return;
      client.pending.delete(event);
      this.#write(client, `event: ${event}\ndata: ${JSON.stringify(this.#data[event]())}\n\n`);
    }
  }

  #write(client: Client, text: string): void {
    client.isFull = !client.response.write(text);
  }

  /** Sends a comment, which keeps the connection open, and closes the connections of clients that do not read. */
  #checkAll(): void {
    for (const client of this.#clients) {
      if (!client.isFull) this.#write(client, ":\n\n");
      else if (++client.stalled >= mostStalled) client.response.destroy();
    }
  }
}
