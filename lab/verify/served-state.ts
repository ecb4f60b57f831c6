import { EventKind } from "../../core/log/events.ts";
import { type BlockCounts, LogBooks } from "../../core/log/log-books.ts";
import { never } from "../../core/serving/outcomes.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { Decisions } from "../compare/decisions.ts";

const { admit, hit, adopt, allocate, copy, duplicate, finish, refuse, preempt } = EventKind;

/** A replica at a place of its log. */
export interface ServedState extends BlockCounts {
  readonly free: number;
  /** Requests in the order of their admission. */
  readonly running: readonly number[];
  /** Requests that have come and neither run nor have ended, in the trace's order. */
  readonly waiting: readonly number[];
  /** Of each running request its blocks, in the order of their places. */
  readonly tables: ReadonlyMap<number, readonly number[]>;
}

/** How things stand after the first `events` of a log, at `timeNs`. */
export function stateAfter({ log, outcomes }: Decisions, events: number, timeNs: Nanos, blockCount: number) {
  const books = new LogBooks();
  books.read(log, 0, events);
  const counts = books.counts();
  const tables = new Map<number, number[]>();
  const ended = new Set<number>();
  const { kind, request, block, key, value } = log.columns();
  for (let at = 0; at < events; at++) {
    const id = request[at];
    const table = tables.get(id);
    switch (kind[at]) {
      case admit:
        tables.set(id, []);
        break;
      case hit:
      case adopt:
      case allocate:
      case copy:
        if (table) table[value[at]] = block[at];
        break;
      case duplicate:
        if (table) table[value[at]] = key[at];
        break;
      case preempt:
        tables.delete(id);
        break;
      case finish:
      case refuse:
        tables.delete(id);
        ended.add(id);
        break;
    }
  }
  const waiting: number[] = [];
  outcomes.arrivalNs.forEach((arrivalNs, id) => {
    if (arrivalNs !== never && arrivalNs <= timeNs && !tables.has(id) && !ended.has(id)) waiting.push(id);
  });
  const { private: own, cachedHeld, cachedIdle } = counts;
  const free = blockCount - own - cachedHeld - cachedIdle;
  const state: ServedState = { ...counts, free, running: [...tables.keys()], waiting, tables };
  return { state, books };
}
