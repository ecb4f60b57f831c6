import { counted } from "../../core/counted.ts";
import { type EventNames, sentenceOf } from "../../core/log/event-text.ts";
import { EventKind } from "../../core/log/events.ts";
import { removalCauseAt } from "../../core/log/removal-causes.ts";
import type { EventText } from "../api.ts";
import { cachedBy } from "./block-map.ts";
import type { BlockStates } from "./block-states.ts";
import type { EventHistory } from "./event-history.ts";

const { hit, adopt, miss } = EventKind;

/** The first event that `states` does not include yet, as a sentence. */
export function textOf(history: EventHistory, states: BlockStates): EventText {
  const event = history.log.eventAt(states.events);
  const { at, timeNs, name, request, block } = event;
  const users =
    block >= 0 && states.isCached(block)
      ? {
          cachedBy: cachedBy(history, states, block),
          usedBy: history.log.columns().request[states.usedAt[block]],
        }
      : undefined;
  const cause = name === "drop" ? removalCauseAt(history.log, at) : undefined;
  const text = sentenceOf({ event, users, cause }, namesIn(history, at));
  return { event: at, timeNs, kind: name, request, block, text };
}

const namesIn = (history: EventHistory, at: number): EventNames => ({
  content: (content) => `content ${content}`,
  blocks: () => counted(lookedUpBlocks(history, at), "block"),
});

/** Number of blocks that were looked up for the request whose `admit` is event `at`. */
export function lookedUpBlocks({ log }: EventHistory, at: number): number {
  const { kind, request } = log.columns();
  let end = at + 1;
  while (end < kind.length && request[end] === request[at] && isLookup(kind[end])) end++;
  return end - at - 1;
}

const isLookup = (kind: number) => kind === hit || kind === adopt || kind === miss;
