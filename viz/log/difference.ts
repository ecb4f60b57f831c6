import type { DifferenceData, EventText } from "../api.ts";
import type { EventHistory } from "./event-history.ts";
import { textOf } from "./event-texts.ts";
import type { Policy } from "./victim.ts";
import { whyOf } from "./why.ts";

/** A run's log and its eviction policy. */
export interface Side {
  readonly history: EventHistory;
  readonly policy: Policy;
}

/** The first event in which two logs differ: in the decision or, with `times`, in its time. */
export function differenceOf(a: Side, b: Side, times: boolean): DifferenceData {
  const event = sameEvents(a.history, b.history, times);
  const identical = event === a.history.events && event === b.history.events;
  const [left, right] = [sideAt(a, event), sideAt(b, event)];
  return { event, identical, timesCompared: times, ...(left && { a: left }), ...(right && { b: right }) };
}

function sameEvents(a: EventHistory, b: EventHistory, times: boolean): number {
  const [mine, other] = [a.log.columns(), b.log.columns()];
  const most = Math.min(a.events, b.events);
  let at = 0;
  while (
    at < most &&
    mine.kind[at] === other.kind[at] &&
    mine.request[at] === other.request[at] &&
    mine.block[at] === other.block[at] &&
    mine.key[at] === other.key[at] &&
    mine.value[at] === other.value[at] &&
    (!times || mine.timeNs[at] === other.timeNs[at])
  )
    at++;
  return at;
}

function sideAt({ history, policy }: Side, event: number): EventText | undefined {
  if (event === history.events) return undefined;
  const states = history.stateAt(event);
  const why = whyOf(history, states, policy);
  return { ...textOf(history, states), ...(why && { why }) };
}
