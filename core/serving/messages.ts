import type { Nanos } from "../trace/trace.ts";
import { EventQueue } from "./event-queue.ts";

/** A message between client, router and replicas about one request, delivered after the latency of its network or link. */
export const Message = {
  ...{ toRouter: 0, toReplica: 1, endToRouter: 2, endToClient: 3 },
  ...{ prefilledToRouter: 4, toDecodeReplica: 5, transferStart: 6, transferEnd: 7, release: 8 },
} as const;
export type Message = (typeof Message)[keyof typeof Message];
/** Above the number of kinds of messages. */
const messageKinds = 16;

/** The messages that have been sent and not delivered. */
export class Messages {
  /** Request · `messageKinds` + kind. */
  readonly #queue = new EventQueue();

  /** Time of the next delivery; infinite if there is none. */
  get nextNs(): Nanos {
    return this.#queue.nextNs;
  }

  send(kind: Message, request: number, atNs: Nanos): void {
    this.#queue.push(atNs, request * messageKinds + kind);
  }

  /** Removes the next message and calls `deliver` with it. */
  deliver(deliver: (kind: Message, request: number) => void): void {
    const message = this.#queue.pop();
    const kind = (message % messageKinds) as Message;
    deliver(kind, (message - kind) / messageKinds);
  }
}
