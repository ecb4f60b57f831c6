import type { Nanos } from "../trace/trace.ts";
import type { Arrivals } from "./arrivals.ts";
import type { TransferTable } from "./disaggregation.ts";
import { type MeasuredOutcomes, never } from "./outcomes.ts";
import type { TimedReplica } from "./timed-replica.ts";

/** What metrics read of a replica. */
export interface ServedReplica
  extends Pick<TimedReplica, "busyNs" | "stepCount" | "isPrefill" | "waitNs" | "lastWaitNs" | "refusals" | "log"> {
  readonly cache: Pick<TimedReplica["cache"], "counters" | "fragmentation"> & {
    readonly index: Pick<TimedReplica["cache"]["index"], "match">;
  };
  readonly replica: Pick<TimedReplica["replica"], "speculates" | "drafts">;
}

/** A run in virtual or real time that has ended or was stopped. */
export interface Served {
  readonly replicas: readonly ServedReplica[];
  readonly arrivals: Pick<Arrivals, "passedOn"> & {
    readonly batches: readonly Pick<Arrivals["batches"][number], "outcomes" | "firstId" | "columns">[];
  };
  /** With separate replicas for prefill and decode. */
  readonly transfers: TransferTable | undefined;
  /** Delay between a replica and the client. */
  readonly returnNs: Nanos;
}

/** Requests after the first `warmup` ones of the trace that have ended; in a run that was stopped, others have not. */
export function* measuredRequests(
  { arrivals }: Served,
  warmup: number,
): Generator<{ readonly outcomes: MeasuredOutcomes; readonly row: number }> {
  for (const { outcomes, firstId } of [...arrivals.passedOn, ...arrivals.batches])
    for (let row = Math.max(0, warmup - firstId); row < outcomes.refused.length; row++)
      if (outcomes.finishedNs[row] !== never) yield { outcomes, row };
}
