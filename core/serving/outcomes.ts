import type { BlockColumns } from "../trace/content.ts";
import type { Trace } from "../trace/trace.ts";

/** The time of an event that has not happened. */
export const never = -1;

/** The outcome of each request, in the order of the trace. Times are ns since the start of the run, or `never`. */
export interface Outcomes {
  readonly inputTokens: Uint32Array;
  /** From the trace, or the number generated where output tokens decide when a request finishes. */
  readonly outputTokens: Uint32Array;
  readonly promptBlocks: Uint32Array;
  readonly session: Uint32Array;
  readonly arrivalNs: Float64Array;
  /** Time of the first admission. */
  readonly admittedNs: Float64Array;
  readonly firstTokenNs: Float64Array;
  readonly finishedNs: Float64Array;
  /** Hits at the first admission. */
  readonly hitBlocks: Uint32Array;
  readonly hitTokens: Uint32Array;
  readonly preemptions: Uint32Array;
  readonly replica: Int32Array;
  /** 1 if the request was refused. */
  readonly refused: Uint8Array;
}

/** The columns that metrics are computed from. */
export type MeasuredOutcomes = Pick<
  Outcomes,
  "inputTokens" | "outputTokens" | "arrivalNs" | "admittedNs" | "firstTokenNs" | "finishedNs" | "replica" | "refused"
>;

/** The columns of metrics, without the others. */
export function measuredColumns(outcomes: Outcomes): MeasuredOutcomes {
  const { inputTokens, outputTokens, arrivalNs, admittedNs, firstTokenNs, finishedNs, replica, refused } = outcomes;
  return { inputTokens, outputTokens, arrivalNs, admittedNs, firstTokenNs, finishedNs, replica, refused };
}

export function newOutcomes(
  { requestCount: n, inputTokens, outputTokens, optional }: Trace,
  blocks: BlockColumns,
): Outcomes {
  return {
    inputTokens,
    outputTokens: outputTokens.slice(),
    promptBlocks: blocks.promptBlocks,
    session: optional.session ?? new Uint32Array(n),
    arrivalNs: new Float64Array(n).fill(never),
    admittedNs: new Float64Array(n).fill(never),
    firstTokenNs: new Float64Array(n).fill(never),
    finishedNs: new Float64Array(n).fill(never),
    hitBlocks: new Uint32Array(n),
    hitTokens: new Uint32Array(n),
    preemptions: new Uint32Array(n),
    replica: new Int32Array(n).fill(never),
    refused: new Uint8Array(n),
  };
}
