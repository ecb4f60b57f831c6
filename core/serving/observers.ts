import type { KvCache } from "../cache/kv-cache.ts";
import type { Request, Sequence } from "../cache/request.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Replica } from "../replica/replica.ts";
import type { StepPlan } from "../replica/step.ts";
import type { Nanos } from "../trace/trace.ts";
import type { StepLoad } from "./step-load.ts";

/** The replica that runs a step. */
export interface ObservedReplica {
  readonly number: number;
  readonly replica: Replica;
  readonly cache: KvCache;
  readonly log: EventLog | undefined;
}

/** Callbacks of a run in virtual or real time, for tables, timelines and the host tier. Each of them is optional. */
export interface StepObserver {
  /** A step was planned and has not run yet; the plan is valid only during the call. */
  planned?(replica: ObservedReplica, plan: StepPlan, startNs: Nanos): void;
  /**
   * `count` steps have ended, the first of which started at `startNs`; step i ended at `endsNs[i]`. `load` is the load of the
   * last one: each of them reads `load.decodeTokens` more context tokens than the step before it.
   */
  steps?(replica: ObservedReplica, load: Readonly<StepLoad>, startNs: Nanos, count: number, endsNs: Float64Array): void;
  arrived?(request: Request, replica: number, nowNs: Nanos): void;
  admitted?(sequence: Sequence, replica: number, nowNs: Nanos): void;
  firstToken?(sequence: Sequence, replica: number, nowNs: Nanos): void;
  /** As in `ReplicaListener`. */
  swappedOut?(sequence: Sequence, tokens: number): void;
  swappedIn?(sequence: Sequence, tokens: number): void;
  /** The request has finished, or was refused for the reason `refused`. */
  ended?(sequence: Sequence, replica: number, nowNs: Nanos, refused: string | undefined): void;
}

/** One observer that forwards every callback to several, in their order; undefined if there are none. */
export function fanOut(observers: readonly StepObserver[]): StepObserver | undefined {
  if (observers.length <= 1) return observers[0];
  return {
    planned: (...args) => {
      for (const observer of observers) observer.planned?.(...args);
    },
    steps: (...args) => {
      for (const observer of observers) observer.steps?.(...args);
    },
    arrived: (...args) => {
      for (const observer of observers) observer.arrived?.(...args);
    },
    admitted: (...args) => {
      for (const observer of observers) observer.admitted?.(...args);
    },
    firstToken: (...args) => {
      for (const observer of observers) observer.firstToken?.(...args);
    },
    swappedOut: (...args) => {
      for (const observer of observers) observer.swappedOut?.(...args);
    },
    swappedIn: (...args) => {
      for (const observer of observers) observer.swappedIn?.(...args);
    },
    ended: (...args) => {
      for (const observer of observers) observer.ended?.(...args);
    },
    // A callback that is added to `StepObserver` and missing here does not compile.
  } satisfies Required<StepObserver>;
}
