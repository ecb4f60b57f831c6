import { BlockTables, type LoggedBlockTable } from "../../core/log/block-tables.ts";
import { type BlockCounts, CacheState } from "../../core/log/cache-state.ts";
import { never } from "../../core/serving/outcomes.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import type { Decisions } from "../compare/decisions.ts";

/** The state of a replica after some events of its log. */
export interface ServedState extends BlockCounts {
  readonly free: number;
  /** Requests in the order of their admission. */
  readonly running: readonly number[];
  /** Requests that have arrived, are not running and have not finished or been refused, in the trace's order. */
  readonly waiting: readonly number[];
  /** The block table of each running request. */
  readonly tables: ReadonlyMap<number, LoggedBlockTable>;
}

/** The state after the first `events` events of a log, at `timeNs`. */
export function stateAfter({ log, outcomes }: Decisions, events: number, timeNs: Nanos, blockCount: number) {
  const cache = new CacheState();
  const blockTables = new BlockTables();
  const ended = new Set<number>();
  for (const event of log.events(0, events)) {
    cache.apply(event);
    blockTables.apply(event);
    if (event.name === "finish" || event.name === "refuse") ended.add(event.request);
  }
  // The ids of pinned prefixes are negative.
  const running = blockTables.requests().filter((id) => id >= 0);
  const tables = new Map(running.map((id) => [id, blockTables.of(id)!]));
  const waiting: number[] = [];
  outcomes.arrivalNs.forEach((arrivalNs, id) => {
    if (arrivalNs !== never && arrivalNs <= timeNs && !tables.has(id) && !ended.has(id)) waiting.push(id);
  });
  const counts = cache.blockCounts();
  const free = blockCount - counts.private - counts.cachedHeld - counts.cachedIdle;
  const state: ServedState = { ...counts, free, running, waiting, tables };
  return { state, cache };
}
