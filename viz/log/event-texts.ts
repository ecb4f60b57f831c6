import { counted } from "../../core/counted.ts";
import { type EventNames, sentenceOf } from "../../core/log/event-text.ts";
import { EventKind, eventNames } from "../../core/log/events.ts";
import type { EventText } from "../api.ts";
import { cachedBy } from "./block-map.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

const { hit, adopt, miss } = EventKind;

/** The event after those of `states`, in words. */
export function textOf(history: EventHistory, states: BlockStates): EventText {
  const at = states.events;
  const { kind, timeNs, request, block, key, value } = history.log.columns();
  const name = eventNames[kind[at]];
  const event = { name, request: request[at], block: block[at], key: key[at], value: value[at] };
  const past = event.block >= 0 &&
    states.isCached(event.block) && {
      cachedBy: cachedBy(history, states, event.block),
      usedBy: request[states.usedAt[event.block]],
    };
  return {
    event: at,
    timeNs: timeNs[at],
    kind: name,
    request: event.request,
    block: event.block,
    text: sentenceOf({ ...event, ...past }, namesIn(history, at)),
  };
}

const namesIn = (history: EventHistory, at: number): EventNames => ({
  content: (content) => `content ${content}`,
  blocks: () => counted(lookedUp(history, at), "block"),
});

/** Blocks of the request that is admitted by the `at`th event that were looked up. */
export function lookedUp({ log }: EventHistory, at: number): number {
  const { kind, request } = log.columns();
  let end = at + 1;
  while (end < kind.length && request[end] === request[at] && isLookup(kind[end])) end++;
  return end - at - 1;
}

const isLookup = (kind: number) => kind === hit || kind === adopt || kind === miss;
