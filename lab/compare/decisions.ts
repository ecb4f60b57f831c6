import type { EventLog } from "../../core/log/event-log.ts";
import { EventKind, type EventName, eventNames } from "../../core/log/events.ts";
import type { ChunkTable } from "../../core/serving/chunk-table.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";

/** All decisions of one replica in a run, and the outcomes of its requests. */
export interface Decisions {
  readonly log: EventLog;
  readonly chunks: ChunkTable;
  readonly outcomes: Outcomes;
}

/** The divergence of two runs, which are identical before it. */
export type Divergence =
  | {
      readonly what: "event";
      /** Its index in both logs, of which one may have ended there. */
      readonly events: number;
      /** Steps that have run before it. */
      readonly steps: number;
      /** Only its time differs. */
      readonly onlyTime: boolean;
    }
  | {
      readonly what: "chunk";
      /** Its index in both tables, of which one may have ended there. */
      readonly chunk: number;
      /** Numbers of events and steps before its step. */
      readonly events: number;
      readonly steps: number;
      /** Only the start time of its step differs. */
      readonly onlyTime: boolean;
    }
  | { readonly what: "outcome"; readonly request: number; readonly name: keyof Outcomes };

/**
 * The first decision that differs between two runs of one trace. All events and all chunks of all steps are compared, in
 * order and with their times, down to physical blocks; then the outcome of each request. Undefined if the runs are
 * identical. Without `times`, times are not compared.
 */
export function firstDivergence(a: Decisions, b: Decisions, times = true): Divergence | undefined {
  const event = firstEvent(a, b, times);
  const chunk = firstChunk(a.chunks, b.chunks, times);
  // The chunks of a step are decided after all events before it.
  if (chunk && (!event || chunk.events <= event.events)) return chunk;
  return event ?? firstOutcome(a.outcomes, b.outcomes, times);
}

const eventColumns = ["kind", "request", "block", "key", "value"] as const;

function firstEvent(a: Decisions, b: Decisions, times: boolean): (Divergence & { what: "event" }) | undefined {
  const columnsA = a.log.columns();
  const columnsB = b.log.columns();
  const same = (at: number) => eventColumns.every((name) => columnsA[name][at] === columnsB[name][at]);
  const most = Math.max(a.log.count, b.log.count);
  for (let at = 0; at < most; at++) {
    const both = at < a.log.count && at < b.log.count;
    const decided = both && same(at);
    if (decided && (!times || columnsA.timeNs[at] === columnsB.timeNs[at])) continue;
    const longer = at < a.log.count ? a : b;
    return { what: "event", events: at, steps: stepsBefore(longer, at), onlyTime: decided };
  }
  return undefined;
}

/** Steps that have run before an event of the log. */
function stepsBefore({ log }: Decisions, event: number): number {
  let steps = 0;
  for (const kind of log.columns().kind.subarray(0, event)) if (kind === EventKind.step) steps++;
  return steps;
}

const chunkColumns = ["step", "request", "from", "tokens", "generated", "prefill", "blocks"] as const;

function firstChunk(a: ChunkTable, b: ChunkTable, times: boolean): (Divergence & { what: "chunk" }) | undefined {
  const most = Math.max(a.step.length, b.step.length);
  for (let chunk = 0; chunk < most; chunk++) {
    const decided = chunkColumns.every((name) => a[name][chunk] === b[name][chunk]);
    const step = Math.min(a.step[chunk] ?? Number.POSITIVE_INFINITY, b.step[chunk] ?? Number.POSITIVE_INFINITY);
    const events = Math.max(...[a, b].map(({ loggedEvents }) => loggedEvents[step] ?? 0));
    if (!decided) return { what: "chunk", chunk, events, steps: step, onlyTime: false };
    if (times && a.startNs[step] !== b.startNs[step])
      return { what: "chunk", chunk, events, steps: step, onlyTime: true };
  }
  return undefined;
}

function firstOutcome(a: Outcomes, b: Outcomes, times: boolean): Divergence | undefined {
  for (const name of Object.keys(a) as (keyof Outcomes)[]) {
    if (!times && name.endsWith("Ns")) continue;
    const request = a[name].findIndex((value: number, id: number) => value !== b[name][id]);
    if (request >= 0) return { what: "outcome", request, name };
  }
  return undefined;
}

/** Numbers of decisions: events by kind, and chunks. */
export type DecisionCounts = Readonly<Record<EventName | "chunk", number>>;

export function decisionCounts({ log, chunks }: Decisions): DecisionCounts {
  const counts = Object.fromEntries([...eventNames, "chunk"].map((name) => [name, 0]));
  for (const kind of log.columns().kind) counts[eventNames[kind]]++;
  counts["chunk"] = chunks.step.length;
  return counts as DecisionCounts;
}
