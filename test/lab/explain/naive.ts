import type { EventLog } from "../../../core/log/event-log.ts";
import type { LogEvent } from "../../../core/log/events.ts";
import type { RemovalCause } from "../../../core/log/removal-causes.ts";
import type { BlockColumns } from "../../../core/trace/content.ts";
import type { Trace } from "../../../core/trace/trace.ts";
import type {
  Age,
  Alternative,
  EvictionBatch,
  RemovalFacts,
  RequestExplanation,
  TokenRun,
} from "../../../lab/explain/explanation.ts";

/** The log of a replica and the trace that it served. */
export interface NaiveInput {
  readonly log: EventLog;
  readonly trace: Trace;
  readonly blocks: BlockColumns;
  readonly warmup: number;
  readonly hasClock: boolean;
  readonly leavesOnly: boolean;
  readonly isCounted: boolean;
  readonly missesLast: boolean;
}

interface Copy {
  readonly block: number;
  readonly content: number;
  readonly publishedAt: number;
  /** Last publication, reference or release. */
  usedAt: number;
  usedBy: number;
  hits: number;
  isIdle: boolean;
}

interface Removal {
  readonly cause: RemovalCause;
  readonly event: LogEvent;
  readonly at: number;
  /** The block at its removal. */
  readonly copy: Copy;
  isLookedUp: boolean;
}

/** The next lookup of a block missed because of its eviction. */
interface Cost {
  /** Index of the lookup in the log. */
  readonly at: number;
  readonly tokens: number;
  readonly by: number;
}

/** By event: the right victims of the evictions, or null. */
type Alternatives = ReadonlyMap<LogEvent, Alternative | null>;

/** Operators have numbers below 0. */
const requestOrNull = (request: number) => (request < 0 ? null : request);

/** One lookup of a block, in the order of the log. */
interface NaiveLookup {
  readonly event: number;
  readonly request: number;
  readonly content: number;
  readonly place: number;
  readonly isFirst: boolean;
  /** Missed tokens; undefined: a hit. */
  readonly missed: number | undefined;
  readonly reason: TokenRun["reason"];
}

/** All events as objects of their own. */
const eventsOf = (log: EventLog): LogEvent[] => Array.from({ length: log.count }, (_, at) => log.eventAt(at));

/** The lookups of a log: the events that follow each `admit`. */
function lookupsOf(events: readonly LogEvent[], input: NaiveInput): NaiveLookup[] {
  const { trace, blocks } = input;
  const lookups: NaiveLookup[] = [];
  const admitted = new Set<number>();
  events.forEach((admit, at) => {
    if (admit.name !== "admit") return;
    const { request, hitTokens, hitBlocks } = admit;
    const isFirst = !admitted.has(request);
    admitted.add(request);
    const inputTokens = trace.inputTokens[request];
    const fullTokens = Math.min(inputTokens, hitBlocks * blocks.blockTokens);
    const isLastMissed = input.missesLast && hitTokens === inputTokens - 1 && fullTokens !== hitTokens;
    let partial = hitTokens + (isLastMissed ? 1 : 0) - fullTokens;
    let isMissing = false;
    for (let i = at + 1; i < events.length; i++) {
      const event = events[i];
      const place = i - at - 1;
      if (event.name === "hit") {
        lookups.push({ event: i, request, content: event.content, place, isFirst, missed: undefined, reason: "hit" });
      } else if (event.name === "miss" || (event.name === "adopt" && event.content >= 0)) {
        if (event.name === "miss") isMissing = true;
        const reason = event.name === "miss" ? event.missReason : isMissing ? "past-hole" : "match-limit";
        const length = Math.min(inputTokens, (place + 1) * blocks.blockTokens) - place * blocks.blockTokens;
        lookups.push({ event: i, request, content: event.content, place, isFirst, missed: length - partial, reason });
        partial = 0;
      } else break;
    }
  });
  return lookups;
}

/** Everything that an explanation states, from plain arrays: each question searches the whole log. */
export function naive(input: NaiveInput) {
  const { log, trace, blocks, warmup, hasClock, leavesOnly, isCounted } = input;
  const events = eventsOf(log);
  const lookups = lookupsOf(events, input);
  const lookupAt = new Map(lookups.map((lookup) => [lookup.event, lookup]));
  const nextLookup = (content: number, after: number) =>
    lookups.findIndex((lookup) => lookup.content === content && lookup.event > after);
  const parents = parentsOf(blocks, trace.requestCount);

  const ageAtHit: number[] = [];
  const ageAtEviction: number[] = [];
  const lifetime: number[] = [];
  const hitsPerBlock: number[] = [];
  const ageAtMiss: [age: number, tokens: number][] = [];
  const missedTokens: Record<RemovalCause | "notStored", number> = {
    eviction: 0,
    expiry: 0,
    operator: 0,
    request: 0,
    notStored: 0,
  };
  const removedBlocks: Record<RemovalCause, number> = { eviction: 0, expiry: 0, operator: 0, request: 0 };
  const removals = new Map<number, Removal>();
  const alternatives = new Map<LogEvent, Alternative | null>();
  const costs = new Map<LogEvent, Cost>();
  const facts = new Map<number, RemovalFacts>();
  let copies: Copy[] = [];
  let rightBlocks = 0;
  let missedBlocks = 0;
  let avoidableTokens = 0;
  let cleared = 0;

  const nows = nowsOf(events, hasClock);
  const nextUseOf = (copy: Copy, at: number) => {
    if (copies.filter(({ content }) => content === copy.content).length > 1) return Number.POSITIVE_INFINITY;
    const next = nextLookup(copy.content, at);
    return next < 0 ? Number.POSITIVE_INFINITY : next;
  };
  const ageBetween = (from: number, to: number): Age => {
    const arrivalOf = (request: number) => trace.arrivalNs[Math.max(0, Math.min(trace.requestCount - 1, request))];
    return hasClock ? { ns: to - from } : { requests: to - from, arrivalNs: arrivalOf(to) - arrivalOf(from) };
  };
  const factsOf = ({ cause, event, at, copy }: Removal, now: number): RemovalFacts => ({
    ...{ cause, request: requestOrNull(event.request), ago: ageBetween(at, now) },
    ...{ lastUsedBy: requestOrNull(copy.usedBy), idle: ageBetween(copy.usedAt, at) },
    ...(cause === "eviction" && { instead: alternatives.get(event)! }),
  });
  const isLeaf = ({ content }: Copy) => !copies.some((other) => parents.get(other.content) === content);

  events.forEach((event, at) => {
    const now = nows[at];
    const own = copies.find(({ block }) => block === event.block);
    const lookup = lookupAt.get(at);
    if (event.name === "hit" && lookup!.isFirst && isCounted && event.request >= warmup)
      ageAtHit.push(own!.isIdle ? now - own!.usedAt : 0);
    if (lookup) {
      const removal = removals.get(lookup.content);
      const found = removal?.isLookedUp ? undefined : removal;
      if (lookup.isFirst && lookup.reason === "evicted" && found) facts.set(at, factsOf(found, now));
      const isMissed = lookup.reason === "evicted" && lookup.missed! > 0;
      if (isMissed && lookup.isFirst && isCounted && lookup.request >= warmup) {
        missedTokens[found?.cause ?? "notStored"] += lookup.missed!;
        if (found) ageAtMiss.push([now - found.at, lookup.missed!]);
        if (found?.cause === "eviction") {
          missedBlocks++;
          if (alternatives.get(found.event)?.nextUsedBy === null) avoidableTokens += lookup.missed!;
          costs.set(found.event, { at, tokens: lookup.missed!, by: lookup.request });
        }
      }
      if (removal) removal.isLookedUp = true;
    }
    switch (event.name) {
      case "clear":
        cleared = event.blocks;
        break;
      case "evict":
      case "drop": {
        let cause: RemovalCause = event.name === "evict" ? "eviction" : event.request >= 0 ? "request" : "operator";
        if (event.name === "drop" && event.request === -1) cause = "expiry";
        if (cleared > 0) {
          cause = "operator";
          cleared--;
        }
        const copy = own!;
        const isMeasured = at + log.dropped >= log.measuredFrom;
        if (isMeasured) {
          removedBlocks[cause]++;
          if (cause === "eviction") ageAtEviction.push(copy.isIdle ? now - copy.usedAt : 0);
          lifetime.push(now - copy.publishedAt);
          hitsPerBlock.push(copy.hits);
        }
        if (cause === "eviction") {
          const evictable = copies
            .filter((other) => other.isIdle && (!leavesOnly || isLeaf(other)))
            .sort((a, b) => a.block - b.block);
          const furthest = evictable.reduce((best, other) => Math.max(best, nextUseOf(other, at)), nextUseOf(copy, at));
          if (nextUseOf(copy, at) === furthest) {
            if (isMeasured) rightBlocks++;
            alternatives.set(event, null);
          } else {
            const best = evictable.find((other) => nextUseOf(other, at) === furthest)!;
            const nextUsedBy = furthest === Number.POSITIVE_INFINITY ? null : lookups[furthest].request;
            alternatives.set(event, { lastUsedBy: requestOrNull(best.usedBy), nextUsedBy });
          }
        }
        copies = copies.filter((other) => other !== copy);
        if (!copies.some(({ content }) => content === copy.content))
          removals.set(copy.content, { cause, event, at: now, copy, isLookedUp: false });
        break;
      }
      case "publish":
        removals.delete(event.content);
        copies.push({
          ...{ block: event.block, content: event.content, publishedAt: now, usedAt: now, usedBy: event.request },
          ...{ hits: 0, isIdle: false },
        });
        break;
      case "hit":
      case "adopt":
      case "pin":
        own!.usedAt = now;
        own!.usedBy = event.request;
        own!.isIdle = false;
        if (event.name === "hit") own!.hits++;
        break;
      case "duplicate": {
        const kept = copies.find(({ block }) => block === event.keptBlock)!;
        kept.usedAt = now;
        kept.usedBy = event.request;
        kept.isIdle = false;
        break;
      }
      case "release":
        if (!event.keptCached) break;
        own!.usedAt = now;
        own!.isIdle = true;
    }
  });
  for (const { hits } of copies) hitsPerBlock.push(hits);
  return {
    ...{ ageAtHit, ageAtEviction, lifetime, hitsPerBlock, ageAtMiss, missedTokens, removedBlocks },
    ...{ cachedBlocks: copies.length, rightBlocks, missedBlocks, avoidableTokens },
    batches: batchesOf(events, alternatives, costs, nows),
    requests: requestsOf(events, lookups, facts, input),
  };
}

/** The unit of ages at each event: its time, or the request that is served at it or next. */
function nowsOf(events: readonly LogEvent[], hasClock: boolean): number[] {
  if (hasClock) return events.map(({ timeNs }) => timeNs);
  return events.map((event, at) => {
    if (event.request >= 0) return event.request;
    const before = events.slice(0, at).findLast(({ request }) => request >= 0);
    if (before === undefined) return 0;
    const isEnded = events
      .slice(0, at)
      .some((e) => (e.name === "finish" || e.name === "refuse") && e.request === before.request);
    return event.name !== "step" && isEnded ? before.request + 1 : before.request;
  });
}

/** The content before each content, from the prompts and outputs of the trace. */
function parentsOf({ keys, start }: BlockColumns, requestCount: number): Map<number, number> {
  const parents = new Map<number, number>();
  for (let request = 0; request < requestCount; request++)
    for (let at = start[request] + 1; at < start[request + 1]; at++) parents.set(keys[at], keys[at - 1]);
  return parents;
}

/** Consecutive evictions for one request that cost something. */
function batchesOf(
  events: readonly LogEvent[],
  alternatives: Alternatives,
  costs: ReadonlyMap<LogEvent, Cost>,
  nows: readonly number[],
): EvictionBatch[] {
  const batches: LogEvent[][] = [];
  events.forEach((event, at) => {
    if (!alternatives.has(event)) return;
    const before = events[at - 1];
    if (before !== undefined && alternatives.has(before) && before.request === event.request)
      batches.at(-1)!.push(event);
    else batches.push([event]);
  });
  return batches.flatMap((evictions) => {
    const missed = evictions.filter((event) => costs.has(event));
    if (missed.length === 0) return [];
    const first = missed.reduce((a, b) => (costs.get(b)!.at < costs.get(a)!.at ? b : a));
    const [{ request }] = evictions;
    return {
      ...{ replica: 0, request: requestOrNull(request), at: nows[events.indexOf(evictions[0])] },
      blocks: evictions.length,
      rightBlocks: evictions.filter((event) => alternatives.get(event) === null).length,
      missedBlocks: missed.length,
      missedTokens: missed.reduce((sum, event) => sum + costs.get(event)!.tokens, 0),
      missedBy: costs.get(first)!.by,
      instead: alternatives.get(first)!,
    };
  });
}

/** The explanation of every admitted request, token by token. `facts`: by index of a lookup, the removal that it finds. */
function requestsOf(
  events: readonly LogEvent[],
  lookups: readonly NaiveLookup[],
  facts: ReadonlyMap<number, RemovalFacts>,
  { trace, blocks: { blockTokens } }: NaiveInput,
): RequestExplanation[] {
  const shared = sharedOf(events, lookups);
  const admissions = events.filter((event) => event.name === "admit");
  const first = admissions.filter((event, i) => admissions.findIndex(({ request }) => request === event.request) === i);
  return first.map(({ request, hitTokens }) => {
    const own = lookups.filter((lookup) => lookup.request === request && lookup.isFirst);
    const inputTokens = trace.inputTokens[request];
    const tokens = Array.from({ length: inputTokens }, (_, token) => {
      const lookup = own.at(Math.floor(token / blockTokens));
      const isShort = token >= own.length * blockTokens;
      const missed = isShort ? "shorter-than-block" : lookup!.missed === undefined ? "match-limit" : lookup!.reason;
      const reason = token < hitTokens ? "hit" : missed;
      return { reason, removal: reason === "evicted" ? facts.get(lookup!.event) : undefined };
    });
    const { blocks, by } = shared.get(request) ?? { blocks: 0, by: -1 };
    return {
      ...{ request, replica: 0, inputTokens, hitTokens },
      evictedTokens: tokens.filter(({ reason }) => reason === "evicted").length,
      runs: runsOf(tokens),
      ...{ sharedTokens: Math.min(inputTokens, blocks * blockTokens), sharedWith: requestOrNull(by) },
    };
  });
}

type Token = Pick<TokenRun, "reason"> & { readonly removal: RemovalFacts | undefined };

/** Consecutive tokens with the same reason and the same requests, with the removal of the first one's block. */
function runsOf(tokens: readonly Token[]): TokenRun[] {
  const groupOf = ({ reason, removal }: Token) =>
    JSON.stringify([reason, removal?.cause, removal?.request, removal?.lastUsedBy]);
  const starts = tokens.flatMap((token, at) => (at > 0 && groupOf(token) === groupOf(tokens[at - 1]) ? [] : [at]));
  return starts.map((from, i) => {
    const { reason, removal } = tokens[from];
    return { from, to: starts[i + 1] ?? tokens.length, reason, ...(removal && { removal }) };
  });
}

/** By request: the number of leading blocks that an earlier request had, and the last such request. */
function sharedOf(events: readonly LogEvent[], lookups: readonly NaiveLookup[]) {
  const shared = new Map<number, { blocks: number; by: number }>();
  for (const { request } of lookups.filter(({ isFirst, place }) => isFirst && place === 0)) {
    const own = lookups.filter((lookup) => lookup.request === request && lookup.isFirst);
    const result = { blocks: 0, by: -1 };
    for (const { content, event } of own) {
      const earlier = events
        .slice(0, own[0].event)
        .findLast((e) => "content" in e && e.content === content && isPossession(e) && e.request >= 0);
      if (earlier === undefined || result.blocks < own.findIndex((lookup) => lookup.event === event)) break;
      result.blocks++;
      result.by = earlier.request;
    }
    shared.set(request, result);
  }
  return shared;
}

const isPossession = ({ name }: LogEvent) =>
  name === "hit" || name === "adopt" || name === "miss" || name === "publish";
