import type { EventLog } from "../log/event-log.ts";
import type { EvictionPolicy, SessionView, SessionViews, Signal, SignalName } from "../plugins/index.ts";
import type { Nanos } from "../trace/trace.ts";
import type { Request } from "./request.ts";

const never = Number.POSITIVE_INFINITY;
const noKeys = new Uint32Array(0);

/** Values of the column `sessionEnd` of a trace. */
export const SessionEnd = { none: 0, close: 1, drop: 2 } as const;

/** The result of an operation on the session of a request. */
export type SignalResult = "sent" | "no such session" | "in use" | "ignored by the eviction policy";

type SignalFields = { -readonly [Name in keyof Signal]: Signal[Name] };
type Session = { -readonly [Name in keyof SessionView]: SessionView[Name] } & {
  /** Its requests that wait or run. */
  requestCount: number;
  /** The largest `sessionEnd` of these requests; it takes effect when the last of them has ended. */
  end: number;
};

/**
 * The sessions of a cache's requests, and the signals of their clients, which are passed to the eviction policy and logged. A
 * request states signals in the columns of the trace; they take effect when it has ended. Other signals are operations.
 */
export class ClientSessions implements SessionViews {
  readonly #sessions = new Map<number | string, Session>();
  readonly #log: EventLog | undefined;
  #policy: EvictionPolicy | undefined;
  #count = 0;
  readonly #signal: SignalFields = {
    name: "pause",
    session: undefined,
    keys: noKeys,
    keyStart: 0,
    blocks: 0,
    keepUntilNs: 0,
  };

  constructor(log: EventLog | undefined) {
    this.#log = log;
  }

  /** Called once, because the policy is created after the view of the sessions. */
  connect(policy: EvictionPolicy): void {
    if (policy.signal !== undefined) this.#policy = policy;
  }

  /** Signals have a receiver: a policy or the log. Without one, no session is recorded. */
  get areUsed(): boolean {
    return this.#policy !== undefined || this.#log !== undefined;
  }

  /** Whether the eviction policy receives signals. */
  get haveListener(): boolean {
    return this.#policy !== undefined;
  }

  /** Undefined if no policy receives signals: the sessions that are recorded for the log must not change decisions. */
  of(request: Pick<Request, "namespace" | "session">): Session | undefined {
    return this.haveListener ? this.#recorded(request) : undefined;
  }

  #recorded({ namespace, session }: Pick<Request, "namespace" | "session">): Session | undefined {
    return session === 0 ? undefined : this.#sessions.get(keyOf(namespace, session));
  }

  /** The request has arrived at the replica: its session is resumed. */
  arrived(request: Request, now: Nanos): void {
    const { namespace, session: id } = request;
    if (id === 0) return;
    let session = this.#recorded(request);
    if (session === undefined) this.#sessions.set(keyOf(namespace, id), (session = newSession(this.#count++)));
    session.requestCount++;
    const wasPaused = session.state === "paused";
    session.state = "running";
    if (wasPaused) this.#send("resume", session, request, request.id, now);
  }

  /** The request has finished or was refused: the signals of its row. */
  ended(request: Request, now: Nanos): void {
    if (request.keepNs > 0) {
      const { markedTokens, promptBlocks, blocks } = request;
      const kept = markedTokens > 0 ? Math.floor(markedTokens / blocks.blockTokens) : promptBlocks;
      this.#keep(request, kept, request.id, now + request.keepNs, now);
    }
    const session = this.#recorded(request);
    if (session === undefined) return;
    session.requestCount--;
    session.end = Math.max(session.end, request.sessionEnd);
    const { nextUseNs, nextUseSteps, tool } = request;
    this.#expect(session, request, request.id, nextUseNs > 0 ? now + nextUseNs : never, nextUseSteps || never, now);
    if (session.requestCount > 0) return;
    session.state = "idle";
    if (session.end !== SessionEnd.none) this.#close(session, request, request.id, now);
    else if (tool > 0) this.#pause(session, request, request.id, tool, now);
  }

  // Operations. `like` is a request of the session.

  pause(like: Request, tool: number, now: Nanos): SignalResult {
    return this.#operate(like, (session) => {
      if (session.requestCount > 0) return false;
      this.#pause(session, like, -1, tool, now);
      return true;
    });
  }

  resume(like: Request, now: Nanos): SignalResult {
    return this.#operate(like, (session) => {
      if (session.state !== "paused") return false;
      session.state = "idle";
      this.#send("resume", session, like, -1, now);
      return true;
    });
  }

  /** Closes the session; `drops`: what it has cached will not be used again. */
  close(like: Request, drops: boolean, now: Nanos): SignalResult {
    return this.#operate(like, (session) => {
      if (session.requestCount > 0) return false;
      session.end = drops ? SessionEnd.drop : SessionEnd.close;
      this.#close(session, like, -1, now);
      return true;
    });
  }

  expect(like: Request, nextUseNs: Nanos, nextUseSteps: number, now: Nanos): SignalResult {
    return this.#operate(like, (session) => {
      this.#expect(session, like, -1, nextUseNs, nextUseSteps, now);
      return true;
    });
  }

  /** `prefix`: a request that is never served, whose prompt is the prefix. */
  keep(prefix: Request, untilNs: Nanos, now: Nanos): SignalResult {
    if (this.areUsed) this.#keep(prefix, prefix.promptBlocks, -1, untilNs, now);
    return this.haveListener ? "sent" : "ignored by the eviction policy";
  }

  /** The result does not depend on the log: without a policy that receives signals, sessions are recorded only for a log. */
  #operate(like: Request, send: (session: Session) => boolean): SignalResult {
    const session = this.#recorded(like);
    const isSent = session !== undefined && send(session);
    if (!this.haveListener) return "ignored by the eviction policy";
    if (session === undefined) return "no such session";
    return isSent ? "sent" : "in use";
  }

  #pause(session: Session, request: Request, id: number, tool: number, now: Nanos): void {
    session.state = "paused";
    session.tool = tool;
    this.#send("pause", session, request, id, now);
  }

  #close(session: Session, request: Request, id: number, now: Nanos): void {
    session.state = "closed";
    this.#sessions.delete(keyOf(request.namespace, request.session));
    this.#send(session.end === SessionEnd.drop ? "drop" : "close", session, request, id, now);
  }

  #expect(session: Session, request: Request, id: number, useNs: Nanos, steps: number, now: Nanos): void {
    if (session.nextUseNs === useNs && session.nextUseSteps === steps) return;
    session.nextUseNs = useNs;
    session.nextUseSteps = steps;
    this.#send("expect", session, request, id, now);
  }

  /** The first `blocks` blocks of the request's prompt. */
  #keep(request: Request, blocks: number, id: number, untilNs: Nanos, now: Nanos): void {
    const signal = this.#signal;
    signal.keys = request.keys;
    signal.keyStart = request.keyStart;
    signal.blocks = blocks;
    signal.keepUntilNs = untilNs;
    this.#send("keep", this.#recorded(request), request, id, now);
    signal.keys = noKeys;
    signal.keyStart = signal.blocks = signal.keepUntilNs = 0;
  }

  #send(name: SignalName, session: Session | undefined, request: Request, id: number, now: Nanos): void {
    this.#log?.signal(now, id, request.session, name);
    if (this.#policy === undefined) return;
    this.#signal.name = name;
    this.#signal.session = session;
    this.#policy.signal!(this.#signal, now);
    this.#signal.session = undefined;
  }
}

/** Equal session ids in different namespaces are different sessions. */
const keyOf = (namespace: number, session: number) => (namespace === 0 ? session : `${namespace}/${session}`);

const newSession = (number: number): Session => ({
  number,
  state: "running",
  tool: 0,
  nextUseNs: never,
  nextUseSteps: never,
  requestCount: 0,
  end: SessionEnd.none,
});
