import type { EventLog } from "../../core/log/event-log.ts";
import type { RequestResults } from "../../core/replica/replay.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";

/** Receives the results of requests while a run proceeds, in the order of the trace. */
export interface RunSink {
  /** `timed`: the same results of a timed run, with its times. */
  addRequests(results: RequestResults, timed?: Outcomes): void;
  /** The next steps of a timed run. The table is used again: its rows are copied. */
  addSteps(steps: StepTable): void;
  /** The log of a replica, whose events may be moved. */
  addEvents?(replica: number, log: EventLog): void;
}

/** Results that are not used. */
export const discarded: RunSink = { addRequests() {}, addSteps() {} };
