import type { Request, Response } from "express";
import type { ServerEvent } from "../api.ts";
import { Refusal } from "./refusal.ts";

interface Client {
  readonly response: Response;
  /** What it has not been told yet. */
  readonly pending: Set<ServerEvent>;
  /** How often it was found to read nothing. */
  stalled: number;
  isFull: boolean;
}

const mostClients = 32;
/** What changes meanwhile is told once. */
const settleMs = 50;
/** After so many pings that it did not read a client is taken for gone. */
const mostStalled = 3;

/**
 * Server-sent events. An event says that something is not as it was, with how it is now: a client that does not read is
 * told the newest state when it reads on, so that no more than one message of each kind waits for it.
 */
export class Events {
  readonly #clients = new Set<Client>();
  readonly #data: Readonly<Record<ServerEvent, () => unknown>>;
  readonly #ping: NodeJS.Timeout;
  #timer: NodeJS.Timeout | undefined;

  /** `data`: how things are now, of each event. */
  constructor(data: Readonly<Record<ServerEvent, () => unknown>>, pingMs = 10_000) {
    this.#data = data;
    this.#ping = setInterval(() => this.#checkAll(), pingMs).unref();
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  /** Answers GET /api/events. @throws Refusal if there are too many. */
  add(request: Request, response: Response): void {
    if (this.#clients.size >= mostClients) throw new Refusal(503, `${mostClients} pages are open, no more can be`);
    const client: Client = { response, pending: new Set(["runs", "jobs", "live"]), stalled: 0, isFull: false };
    response.status(200).set({ "content-type": "text/event-stream", "x-accel-buffering": "no" });
    request.socket.setNoDelay(true);
    response.write("retry: 2000\n\n");
    response.on("drain", () => {
      client.isFull = false;
      client.stalled = 0;
      this.#tell(client);
    });
    const forget = () => this.#clients.delete(client);
    response.on("close", forget).on("error", forget);
    this.#clients.add(client);
    this.#tell(client);
  }

  /** Tells all, soon. */
  changed(event: ServerEvent): void {
    if (this.#clients.size === 0) return;
    for (const { pending } of this.#clients) pending.add(event);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      for (const client of this.#clients) this.#tell(client);
    }, settleMs).unref();
  }

  close(): void {
    clearInterval(this.#ping);
    clearTimeout(this.#timer);
    for (const { response } of this.#clients) response.end();
    this.#clients.clear();
  }

  #tell(client: Client): void {
    for (const event of client.pending) {
      if (client.isFull) return;
      client.pending.delete(event);
      this.#write(client, `event: ${event}\ndata: ${JSON.stringify(this.#data[event]())}\n\n`);
    }
  }

  #write(client: Client, text: string): void {
    client.isFull = !client.response.write(text);
  }

  /** A comment keeps the connection, and shows who is gone. */
  #checkAll(): void {
    for (const client of this.#clients) {
      if (!client.isFull) this.#write(client, ":\n\n");
      else if (++client.stalled >= mostStalled) client.response.destroy();
    }
  }
}
