import { EventKind, type EventLog } from "../../core/log/events.ts";

const { hit, adopt, miss, evict, allocate, copy, duplicate, release, refuse } = EventKind;

/** In what two logs may differ although the same was decided. */
export const asides = ["block-numbers", "release-order", "miss-reasons"] as const;
export type Aside = (typeof asides)[number];

/** The places of two logs at which they part; a log's length if it has ended there. */
export interface LogDivergence {
  readonly first: number;
  readonly second: number;
}

type Columns = ReturnType<EventLog["columns"]>;

/**
 * Compares two logs of the same requests as they grow, in two layers. A *decision* is what is hit, refused, evicted (by
 * content and in order), allocated, published, forgotten, computed. Which physical block it was done with, in which
 * order a request let its blocks go, and what a miss was put down to, are no decisions: that they differ is noted aside.
 */
export class LogComparison {
  requests = 0;
  events = 0;
  hitBlocks = 0;
  evictedBlocks = 0;
  refusedRequests = 0;
  /** For each aside the first request that has it, and how many have it. */
  readonly noted = new Map<Aside, { readonly first: number; requests: number }>();
  readonly #found = new Set<Aside>();
  readonly #firstPlaces = new Places();
  readonly #secondPlaces = new Places();

  /** The events of one request: those of the first log from `from` on, of the second from `secondFrom` on. */
  request(id: number, first: EventLog, from: number, second: EventLog, secondFrom: number): LogDivergence | undefined {
    const a = first.columns();
    const b = second.columns();
    const same = equalUpTo(a, from, b, secondFrom);
    const length = first.count - from;
    let parting: LogDivergence | undefined;
    if (same < length || second.count - secondFrom !== length) {
      parting = this.#parting(a, from, b, secondFrom, same);
      for (const aside of this.#found) this.#note(aside, id);
      this.#found.clear();
    }
    this.#count(a, from, parting?.first ?? first.count);
    if (!parting) this.requests++;
    return parting;
  }

  #note(aside: Aside, request: number): void {
    const noted = this.noted.get(aside);
    if (noted) noted.requests++;
    else this.noted.set(aside, { first: request, requests: 1 });
  }

  #count({ kind }: Columns, from: number, to: number): void {
    for (let at = from; at < to; at++) {
      if (kind[at] === hit) this.hitBlocks++;
      else if (kind[at] === evict) this.evictedBlocks++;
      else if (kind[at] === refuse) this.refusedRequests++;
    }
    this.events += to - from;
  }

  /** The logs are equal for `same` events, and no longer. */
  #parting(a: Columns, from: number, b: Columns, secondFrom: number, same: number): LogDivergence | undefined {
    let first = from + same;
    let second = secondFrom + same;
    while (first < a.kind.length && second < b.kind.length) {
      const kind = a.kind[first];
      if (kind !== b.kind[second] || a.request[first] !== b.request[second]) return { first, second };
      if (kind === release) {
        const firstEnd = endOfReleases(a, first);
        const secondEnd = endOfReleases(b, second);
        const parting = this.#releases(a, from, first, firstEnd, b, secondFrom, second, secondEnd);
        if (parting) return parting;
        first = firstEnd;
        second = secondEnd;
        continue;
      }
      if (!sameDecision(kind, a, first, b, second)) return { first, second };
      if (kind === miss && a.value[first] !== b.value[second]) this.#found.add("miss-reasons");
      const otherBlock = a.block[first] !== b.block[second] || (namesBlock(kind) && a.key[first] !== b.key[second]);
      if (otherBlock) this.#found.add("block-numbers");
      first++;
      second++;
    }
    return first < a.kind.length || second < b.kind.length ? { first, second } : undefined;
  }

  /** Blocks let go in one go: the same places of the request, or the logs part. */
  #releases(
    a: Columns,
    from: number,
    first: number,
    firstEnd: number,
    b: Columns,
    secondFrom: number,
    second: number,
    secondEnd: number,
  ): LogDivergence | undefined {
    const mine = this.#firstPlaces.released(a, from, first, firstEnd);
    const other = this.#secondPlaces.released(b, secondFrom, second, secondEnd);
    if (mine.length === other.length && mine.every((released, n) => released === other[n])) return undefined;
    const notHere = without(mine, other);
    const notThere = without(other, mine);
    if (notHere === mine.length && notThere === other.length) {
      this.#found.add("release-order");
      return undefined;
    }
    return { first: first + notHere, second: second + notThere };
  }
}

/** Where a request's blocks are in its block table. */
class Places {
  readonly #placeOf = new Map<number, number>();

  /** For each release in `[at, to)` its place in the table and whether the block stays cached, as one number. */
  released({ kind, block, key, value }: Columns, from: number, at: number, to: number): number[] {
    const placeOf = this.#placeOf;
    placeOf.clear();
    for (let i = from; i < at; i++) {
      if (kind[i] === hit || kind[i] === adopt || kind[i] === allocate || kind[i] === copy)
        placeOf.set(block[i], value[i]);
      else if (kind[i] === duplicate) placeOf.set(key[i], value[i]);
    }
    return Array.from({ length: to - at }, (_, i) => 2 * (placeOf.get(block[at + i]) ?? -1) + value[at + i]);
  }
}

/** The place of the first of `all` that is not among `others`; the length if there is none. */
function without(all: readonly number[], others: readonly number[]): number {
  const left = new Map<number, number>();
  for (const other of others) left.set(other, (left.get(other) ?? 0) + 1);
  const at = all.findIndex((one) => {
    const count = left.get(one) ?? 0;
    left.set(one, count - 1);
    return count <= 0;
  });
  return at < 0 ? all.length : at;
}

function endOfReleases({ kind }: Columns, at: number): number {
  while (at < kind.length && kind[at] === release) at++;
  return at;
}

/** The key of these events is a physical block, not content. */
const namesBlock = (kind: number) => kind === copy || kind === duplicate;

/** Whether two events of one kind decide the same. */
function sameDecision(kind: number, a: Columns, first: number, b: Columns, second: number): boolean {
  const sameKey = namesBlock(kind) || a.key[first] === b.key[second];
  return sameKey && (kind === miss || a.value[first] === b.value[second]);
}

/** How many events are the same in everything. */
function equalUpTo(a: Columns, from: number, b: Columns, secondFrom: number): number {
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
