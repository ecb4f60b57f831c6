import type { Nanos } from "../trace/trace.ts";
import type { StepObserver } from "./observers.ts";
import type { StepLoadExtension } from "./step-load.ts";
import type { TimedReplica } from "./timed-replica.ts";

/** Runs the steps of one replica, in virtual or real time. It observes that replica before all other observers. */
export interface StepRunner extends StepObserver {
  /** The attention window of sliding-window layers; undefined if no layer has one. */
  readonly windowTokens?: number | undefined;
  /** Pipeline parallelism: most batches in flight; 1 if absent. */
  readonly batchesInFlight?: number | undefined;
  /** Loads that depend on the backend, if step times depend on them. */
  readonly calls?: StepLoadExtension | undefined;
  /** Output tokens decide when a request finishes, rather than the trace's output length. */
  readonly decidesEnds?: boolean;
  /**
   * Plans and starts the next step, or several repeated ones that end by `horizonNs`, before which no request arrives. Returns
   * the time at which it ends; undefined if the plan is empty, or if only running the step shows when it ends.
   */
  start(replica: TimedReplica, nowNs: Nanos, horizonNs: Nanos): Nanos | undefined;
  /** With `lockstep`: plans and starts the next step of all replicas; returns when it ends, undefined if all plans are empty. */
  startTogether?(replicas: readonly TimedReplica[], nowNs: Nanos): Nanos | undefined;
}
