import type { Nanos } from "../trace/trace.ts";
import type { RequestView } from "./request-view.ts";

/** Names of the signals, in the order of their codes in event logs. */
export const signalNames = ["pause", "resume", "close", "expect", "keep", "drop"] as const;
/** The name of a signal; `Signal` describes them. */
export type SignalName = (typeof signalNames)[number];

/** A session of the cache's requests, from the arrival of its first request until it is closed. */
export interface SessionView {
  /** Position in the order in which the cache's sessions began, from 0; no two sessions of a cache have the same number. */
  readonly number: number;
  /**
   * `running`: one of its requests waits or runs. `paused`: none does, and the client calls a tool. `idle`: none does for another
   * reason. `closed`: no request is expected; the number is not used again.
   */
  readonly state: "running" | "paused" | "idle" | "closed";
  /** Number of the tool that was called last, from 1; 0 = none. */
  readonly tool: number;
  /** When the client expects the next request, in ns since the start of the trace; `Infinity` = not stated. */
  readonly nextUseNs: Nanos;
  /** Number of steps of the client's workflow until the next request of the session; `Infinity` = not stated. */
  readonly nextUseSteps: number;
}

/**
 * A signal. Valid during the call only.
 *
 * `pause`: the session calls a tool, and none of its requests waits or runs. `resume`: the tool has returned, or a request of the
 * paused session has arrived. `close`: the session is closed. `expect`: `nextUseNs` or `nextUseSteps` of the session has changed.
 * `keep`: the prefix is to be evicted after all others until `keepUntilNs`. `drop`: what the session has cached will not be used
 * again; the session is closed.
 */
export interface Signal {
  readonly name: SignalName;
  /** Undefined only for `keep` of a request without a session. */
  readonly session: SessionView | undefined;
  /** `keep`: content ids of the prefix, `keys[keyStart .. keyStart + blocks)`. */
  readonly keys: Uint32Array;
  readonly keyStart: number;
  /** Number of blocks of the prefix; 0 for all other signals. */
  readonly blocks: number;
  /** `keep`: in ns since the start of the trace. */
  readonly keepUntilNs: Nanos;
}

/** The sessions of a cache's requests. Sessions are recorded only for a policy with `signal`. */
export interface SessionViews {
  /** The session of a request; undefined if the request has none, or it is closed. */
  of(request: Pick<RequestView, "namespace" | "session">): SessionView | undefined;
}
