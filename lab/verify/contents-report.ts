import type { EventLog } from "../../core/log/event-log.ts";
import type { LogEvent } from "../../core/log/events.ts";
import type { ContentsDifference } from "../../engine/contents/contents-check.ts";
import type { ContentsTolerance } from "../../engine/contents/difference.ts";
import type { Decisions } from "../compare/decisions.ts";
import type { EventSentences } from "../compare/event-sentences.ts";
import type { RecomputedContents } from "./verification.ts";

/** Earlier events of the block that are shown. */
const contextEvents = 4;

/** The recomputed contents, as the field `contents` of `verify --json`. */
export function contentsReport(
  { counts, share, largestErrors, difference }: RecomputedContents,
  tolerance: ContentsTolerance | undefined,
  engine: Decisions,
  sentences: EventSentences,
) {
  return {
    identical: difference === undefined,
    /** Largest relative errors; null: contents must be bit-identical. */
    tolerance: tolerance ?? null,
    /** With a tolerance: the largest relative errors of all recomputed contents. */
    largestErrors: tolerance && !difference ? largestErrors : null,
    /** Share of the candidates that are recomputed; null: limited by their cost. */
    share: share ?? null,
    ...counts,
    difference: difference ? differenceReport(difference, engine, sentences) : null,
  };
}

function differenceReport(difference: ContentsDifference, { log, chunks }: Decisions, sentences: EventSentences) {
  const { what, request, token, step, at, engine, recomputed, relativeError } = difference;
  const event = eventOf(difference, log, chunks);
  const report = (one: LogEvent) => ({
    event: one.at,
    timeNs: one.timeNs,
    words: sentences.sentence({ event: one, users: undefined }),
  });
  return {
    ...{ what, request, token, step },
    block: at?.block ?? null,
    place: at?.place ?? null,
    layer: at?.layer ?? null,
    ...{ engine, recomputed, relativeError: Number.isFinite(relativeError) ? relativeError : null },
    /** The last event before the difference that determined what the block contains at this token; for logits the step. */
    event: report(event),
    /** Events of the same block before it. */
    context: at ? earlierEvents(log, event.at, at.block).map((index) => report(log.eventAt(index))) : [],
  };
}

/** The last event that determined the contents of a token: its step, a copy, a swap-in, or the hit of its block. */
function eventOf(
  { what, request, token, step, events, at }: ContentsDifference,
  log: EventLog,
  chunks: Decisions["chunks"],
): LogEvent {
  const steps = stepEvents(log);
  if (what === "logits" || at === undefined) return log.eventAt(steps[step]);
  let computedAt = -1;
  for (let i = 0; i < chunks.step.length && chunks.step[i] <= step; i++) {
    const from = chunks.from[i];
    if (chunks.request[i] === request && token >= from && token < from + chunks.tokens[i])
      computedAt = steps[chunks.step[i]];
  }
  // Swap-ins and copies of a plan are logged before its step.
  let last = computedAt;
  let hitTokens = 0;
  for (const event of log.events(0, events)) {
    if (event.request !== request) continue;
    if (event.name === "admit") hitTokens = event.hitTokens;
    const setsBlock = event.name === "hit" || event.name === "adopt" || event.name === "copy";
    const isOfBlock = setsBlock && event.block === at.block;
    const isRestored = event.name === "swapIn" && token >= hitTokens && token < hitTokens + event.tokens;
    if ((isOfBlock || isRestored) && event.at > last) last = event.at;
  }
  return log.eventAt(last < 0 ? steps[step] : last);
}

/** Index of the event of each step. */
function stepEvents(log: EventLog): number[] {
  const at: number[] = [];
  for (const event of log.events()) if (event.name === "step") at.push(event.at);
  return at;
}

/** Indices of the last events of a block before an event, in order. */
function earlierEvents(log: EventLog, before: number, block: number): number[] {
  const all: number[] = [];
  for (const event of log.events(0, before)) if (event.block === block) all.push(event.at);
  return all.slice(-contextEvents);
}
