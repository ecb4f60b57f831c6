import type { EventColumns, EventLog } from "../../core/log/event-log.ts";
import { EventRecord } from "../../core/log/event-record.ts";
import { EventKind, ignore, type LogEvent, type WithoutBlock } from "../../core/log/events.ts";

const { hit, evict, release, refuse } = EventKind;

/** Differences that two logs with the same decisions may have. */
export const asides = ["block-numbers", "release-order", "miss-reasons"] as const;
export type Aside = (typeof asides)[number];

/** The indices at which two logs diverge; a log's length if the log has ended there. */
export interface LogDivergence {
  readonly first: number;
  readonly second: number;
}

/** The events of one request in a log: from `from` to the log's end. */
interface RequestEvents {
  readonly log: EventLog;
  readonly columns: EventColumns;
  readonly from: number;
  /** Decodes its events. */
  readonly record: EventRecord;
}

/**
 * Compares two logs of the same requests, request by request. Contents, their order and the outcome of a request are
 * *decisions*: hits, refusals, evictions, allocations, publications, drops, steps. The number of a physical block, the order
 * in which a request releases its blocks and the reason of a miss are not: differences in them are noted as asides.
 */
export class LogComparison {
  requests = 0;
  events = 0;
  hitBlocks = 0;
  evictedBlocks = 0;
  refusedRequests = 0;
  /** For each aside, the first request that has it and the number of requests that have it. */
  readonly noted = new Map<Aside, { readonly first: number; requests: number }>();
  /** Asides of the request that is being compared. */
  readonly #found = new Set<Aside>();
  readonly #firstRecord = new EventRecord();
  readonly #secondRecord = new EventRecord();

  /** Compares the events of one request: those of the first log from `from` on, of the second from `secondFrom` on. */
  request(id: number, first: EventLog, from: number, second: EventLog, secondFrom: number): LogDivergence | undefined {
    const a = { log: first, columns: first.columns(), from, record: this.#firstRecord };
    const b = { log: second, columns: second.columns(), from: secondFrom, record: this.#secondRecord };
    const same = equalRows(a, b);
    const length = first.count - from;
    let divergence: LogDivergence | undefined;
    if (same < length || second.count - secondFrom !== length) {
      divergence = this.#divergence(a, b, same);
      for (const aside of this.#found) this.#note(aside, id);
      this.#found.clear();
    }
    this.#count(a.columns, from, divergence?.first ?? first.count);
    if (!divergence) this.requests++;
    return divergence;
  }

  #note(aside: Aside, request: number): void {
    const noted = this.noted.get(aside);
    if (noted) noted.requests++;
    else this.noted.set(aside, { first: request, requests: 1 });
  }

  #count({ kind }: EventColumns, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      if (kind[at] === hit) this.hitBlocks++;
      else if (kind[at] === evict) this.evictedBlocks++;
      else if (kind[at] === refuse) this.refusedRequests++;
    }
    this.events += to - from;
  }

  /** Finds the first different decision; the first `same` rows are known to be equal. */
  #divergence(a: RequestEvents, b: RequestEvents, same: number): LogDivergence | undefined {
    let first = a.from + same;
    let second = b.from + same;
    while (first < a.log.count && second < b.log.count) {
      const one = a.log.eventAt(first, a.record);
      const other = b.log.eventAt(second, b.record);
      if (one.name !== other.name || one.request !== other.request) return { first, second };
      if (one.name === "release") {
        const firstEnd = endOfReleases(a.columns, first);
        const secondEnd = endOfReleases(b.columns, second);
        const divergence = this.#releases(a, first, firstEnd, b, second, secondEnd);
        if (divergence) return divergence;
        first = firstEnd;
        second = secondEnd;
        continue;
      }
      if (!isSameDecision(one, other, a.columns, b.columns)) return { first, second };
      if (one.name === "miss" && one.missReason !== (other as typeof one).missReason) this.#found.add("miss-reasons");
      if (!hasSameBlocks(one, other)) this.#found.add("block-numbers");
      first++;
      second++;
    }
    return first < a.log.count || second < b.log.count ? { first, second } : undefined;
  }

  /** Compares consecutive releases: the logs diverge unless the same places of the block table are released. */
  #releases(
    a: RequestEvents,
    first: number,
    firstEnd: number,
    b: RequestEvents,
    second: number,
    secondEnd: number,
  ): LogDivergence | undefined {
    const released = releasedPlaces(a, first, firstEnd);
    const other = releasedPlaces(b, second, secondEnd);
    if (released.length === other.length && released.every((place, n) => place === other[n])) return undefined;
    const firstOnly = firstMissing(released, other);
    const secondOnly = firstMissing(other, released);
    if (firstOnly === released.length && secondOnly === other.length) {
      this.#found.add("release-order");
      return undefined;
    }
    return { first: first + firstOnly, second: second + secondOnly };
  }
}

/** Two events of one kind: the contents, the places and the numbers are the same. */
function isSameDecision(a: LogEvent, b: LogEvent, columns: EventColumns, others: EventColumns): boolean {
  switch (a.name) {
    case "miss":
      return a.content === (b as typeof a).content;
    case "copy":
    case "duplicate":
      return a.place === (b as typeof a).place;
    default:
      return columns.key[a.at] === others.key[b.at] && columns.value[a.at] === others.value[b.at];
  }
}

/** Two events of one kind: the physical blocks are the same. */
function hasSameBlocks(a: LogEvent, b: LogEvent): boolean {
  if (a.block !== b.block) return false;
  if (a.name === "copy") return a.sourceBlock === (b as typeof a).sourceBlock;
  return a.name !== "duplicate" || a.keptBlock === (b as typeof a).keptBlock;
}

/** For each release in `[at, to)`, the block's place in the request's block table and whether it stays cached, as one number. */
function releasedPlaces({ log, from }: RequestEvents, at: number, to: number): number[] {
  const placeOf = new Map<number, number>();
  const released: number[] = [];
  for (const event of log.events(from, to))
    switch (event.name) {
      case "hit":
      case "adopt":
      case "allocate":
      case "copy":
        placeOf.set(event.block, event.place);
        break;
      case "duplicate":
        placeOf.set(event.keptBlock, event.place);
        break;
      case "release":
        if (event.at >= at) released.push(2 * (placeOf.get(event.block) ?? -1) + (event.keptCached ? 1 : 0));
        break;
      default:
        ignore<WithoutBlock | "publish" | "evict" | "drop" | "pin">(event);
    }
  return released;
}

/** Index of the first element of `all` that is not in `others`, as a multiset; the length if there is none. */
function firstMissing(all: readonly number[], others: readonly number[]): number {
  const left = new Map<number, number>();
  for (const other of others) left.set(other, (left.get(other) ?? 0) + 1);
  const at = all.findIndex((one) => {
    const count = left.get(one) ?? 0;
    left.set(one, count - 1);
    return count <= 0;
  });
  return at < 0 ? all.length : at;
}

function endOfReleases({ kind }: EventColumns, at: number): number {
  while (at < kind.length && kind[at] === release) at++;
  return at;
}

/** Number of leading rows that are equal in every column. */
function equalRows({ columns: a, from }: RequestEvents, { columns: b, from: secondFrom }: RequestEvents): number {
  const count = Math.min(a.kind.length - from, b.kind.length - secondFrom);
  for (let n = 0; n < count; n++) {
    const i = from + n;
    const j = secondFrom + n;
    const equal =
      a.kind[i] === b.kind[j] &&
      a.block[i] === b.block[j] &&
      a.key[i] === b.key[j] &&
      a.value[i] === b.value[j] &&
      a.request[i] === b.request[j] &&
      a.timeNs[i] === b.timeNs[j];
    if (!equal) return n;
  }
  return count;
}
