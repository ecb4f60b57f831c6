import type { ChatMessage } from "../../engine/model/chat-template.ts";
import { ApiError } from "./api-error.ts";
import type { ApiRequest } from "./api-request.ts";

interface Session {
  readonly number: number;
  messages: readonly ChatMessage[];
  isBusy: boolean;
}

/** A request of a session: its whole conversation. */
export interface Turn {
  /** Number of the session, from 1. */
  readonly session: number;
  readonly messages: readonly ChatMessage[];
  /** The turn has an answer: the session continues after it. */
  answered(text: string): void;
  /** Ends the turn; without an answer the session is as before. */
  end(): void;
}

/** Stateful sessions: the server keeps their conversations, of the sessions that were used last. */
export class Sessions {
  readonly #most: number;
  /** The least recently used one first. */
  readonly #sessions = new Map<string, Session>();
  #count = 0;

  /** `most`: most sessions; 0: none are supported. */
  constructor(most: number) {
    this.#most = most;
  }

  /**
   * Begins the next turn of a request's session; undefined if it has none.
   *
   * @throws ApiError if sessions are not supported, the request cannot continue one, or the session has a turn in progress
   */
  begin({ session: id, isChat, prompts, bestOf }: ApiRequest): Turn | undefined {
    if (id === undefined) return undefined;
    const refuse = (status: number, message: string) => new ApiError(status, message, { param: "session_id" });
    if (this.#most === 0) throw refuse(400, "sessions are not supported: the server was started without --sessions");
    if (!isChat) throw refuse(400, "only chats have sessions");
    if (bestOf > 1) throw refuse(400, "a turn of a session has one answer: n is above 1");
    const session = this.#sessions.get(id) ?? { number: ++this.#count, messages: [], isBusy: false };
    if (session.isBusy) throw refuse(409, "the session has a turn in progress");
    // Moves it to the end of the order.
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    session.isBusy = true;
    this.#evict();
    const messages = [...session.messages, ...(prompts[0] as readonly ChatMessage[])];
    return {
      ...{ session: session.number, messages },
      answered(content) {
        session.messages = [...messages, { role: "assistant", content }];
      },
      end: () => {
        session.isBusy = false;
        if (session.messages.length === 0) this.#sessions.delete(id);
      },
    };
  }

  /** Ends a session; false if there is none. */
  remove(id: string): boolean {
    return this.#sessions.delete(id);
  }

  #evict(): void {
    for (const [id, { isBusy }] of this.#sessions) {
      if (this.#sessions.size <= this.#most) return;
      if (!isBusy) this.#sessions.delete(id);
    }
  }
}
