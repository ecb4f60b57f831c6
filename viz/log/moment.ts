import { LoggedState } from "../../core/log/block-lives.ts";
import { eventNames } from "../../core/log/events.ts";
import type { LogData, MomentData } from "../api.ts";
import { blockMapOf } from "./block-map.ts";
import type { EventHistory } from "./event-history.ts";
import { textOf } from "./event-texts.ts";
import { treeOf } from "./prefix-tree.ts";
import type { Policy } from "./victim.ts";
import { whyOf } from "./why.ts";

/** Events that are listed before and after a moment. */
const listedEvents = 12;
const mostParts = 400;

/** The state after the first `event` events. */
export function momentOf(history: EventHistory, event: number, mostNodes: number, policy: Policy): MomentData {
  const { log } = history;
  const { timeNs, block } = log.columns();
  const states = history.copyAt(Math.max(0, event - listedEvents));
  const textsUpTo = (to: number) => {
    const texts = [];
    for (; states.events < to; history.advance(states, states.events + 1)) texts.push(textOf(history, states));
    return texts;
  };
  const before = textsUpTo(event);
  const { steps, counts, running } = states;
  const moment = {
    event,
    timeNs: event === 0 ? (timeNs[0] ?? 0) : timeNs[event - 1],
    steps,
    counts: {
      free: counts[LoggedState.free],
      private: counts[LoggedState.private],
      held: counts[LoggedState.referenced],
      idle: counts[LoggedState.idle],
    },
    running: [...running],
    blocks: blockMapOf(history, states),
    tree: treeOf(history, states, mostNodes, block[event] ?? -1),
    before,
  };
  const why = event < log.count ? whyOf(history, states, policy) : undefined;
  const [first, ...others] = textsUpTo(Math.min(log.count, event + listedEvents));
  return { ...moment, next: first ? [{ ...first, ...(why && { why }) }, ...others] : [] };
}

/** A summary of the log. */
export function logOf(history: EventHistory): LogData {
  const { log, events } = history;
  const { kind, timeNs, block } = log.columns();
  const kinds = new Array<number>(eventNames.length).fill(0);
  for (const each of kind) kinds[each]++;
  const parts = Math.min(mostParts, events);
  const ends = Array.from({ length: parts }, (_, part) => Math.round(((part + 1) * events) / parts));
  const states = history.copyAt(0);
  const overview = {
    event: ends,
    timeNs: ends.map((end) => timeNs[end - 1]),
    private: [],
    held: [],
    idle: [],
    evicted: [],
  };
  let evicted = 0;
  const columns: Record<"private" | "held" | "idle" | "evicted", number[]> = overview;
  for (const end of ends) {
    history.advance(states, end);
    columns.private.push(states.counts[LoggedState.private]);
    columns.held.push(states.counts[LoggedState.referenced]);
    columns.idle.push(states.counts[LoggedState.idle]);
    columns.evicted.push(states.evicted - evicted);
    evicted = states.evicted;
  }
  return {
    events,
    firstNs: timeNs[0] ?? 0,
    lastNs: timeNs[events - 1] ?? 0,
    blocks: block.reduce((most, each) => Math.max(most, each), -1) + 1,
    kinds: Object.fromEntries(kinds.map((count, each) => [eventNames[each], count])),
    overview,
  };
}
