import { EventKind, eventNames } from "../../core/log/events.ts";
import type { MissReason } from "../../core/log/miss-reasons.ts";
import type { RequestLog } from "../api.ts";
import type { EventHistory } from "./event-history.ts";

const { admit, preempt, finish, refuse } = EventKind;
const listed: readonly number[] = [admit, preempt, finish, refuse];
/** A request that is preempted more often has its first and its last events listed. */
const mostListed = 100;

/** What an event log has of one request; `inputTokens` and `promptBlocks` are those of its prompt. */
export function requestLogOf(
  history: EventHistory,
  {
    request,
    inputTokens,
    promptBlocks,
  }: { readonly request: number; readonly inputTokens: number; readonly promptBlocks: number },
): RequestLog {
  const { kind, request: requests, timeNs } = history.log.columns();
  const events: RequestLog["events"][number][] = [];
  let admission: number | undefined;
  for (let at = requests.indexOf(request); at >= 0; at = requests.indexOf(request, at + 1)) {
    if (kind[at] === admit) admission ??= at;
    if (listed.includes(kind[at])) events.push({ event: at, timeNs: timeNs[at], kind: eventNames[kind[at]] });
  }
  const missTokens = admission === undefined ? {} : missesOf(history, admission, inputTokens, promptBlocks);
  const half = mostListed / 2;
  return {
    missTokens,
    events: events.length <= mostListed ? events : [...events.slice(0, half), ...events.slice(-half)],
  };
}

/**
 * Missed tokens of an admission by reason: those of the report are their sums over all requests.
 *
 *   prompt   [0 … hits) [hits … blocks · block size) [… inputTokens)
 *   reason              that of each block           shorter-than-block
 *
 * Of the first block past the hits, a part may be used.
 */
function missesOf({ log, blockTokens }: EventHistory, admission: number, inputTokens: number, promptBlocks: number) {
  const missed = new Map<MissReason, number>();
  const add = (reason: MissReason, tokens: number) => {
    if (tokens !== 0) missed.set(reason, (missed.get(reason) ?? 0) + tokens);
  };
  const first = log.eventAt(admission);
  if (first.name !== "admit") return {};
  const blocksTokens = Math.min(first.hitBlocks * blockTokens, inputTokens);
  const isLastMissed = first.hitTokens < blocksTokens;
  let partTokens = isLastMissed ? 0 : first.hitTokens - blocksTokens;
  let place = 0;
  let isMissing = false;
  const look = (reason: MissReason) => {
    add(reason, Math.min(blockTokens, inputTokens - place * blockTokens) - partTokens);
    partTokens = 0;
  };
  for (let at = admission + 1; at < log.count; at++) {
    const event = log.eventAt(at);
    if (event.request !== first.request || !(event.name === "hit" || event.name === "adopt" || event.name === "miss"))
      break;
    if (event.name === "adopt" && event.content < 0) continue;
    if (event.name === "miss") {
      isMissing = true;
      look(event.missReason);
    } else if (event.name === "adopt") look(isMissing ? "past-hole" : "match-limit");
    place++;
  }
  if (isLastMissed) add("match-limit", blocksTokens - first.hitTokens);
  add("shorter-than-block", Math.max(0, inputTokens - promptBlocks * blockTokens - partTokens));
  return Object.fromEntries(missed);
}
