import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ColumnName, ColumnNeeds, EntryColumns, EntryId } from "./entry-columns.ts";
import type { Plugin } from "./plugin.ts";
import type { FutureView, RequestView } from "./request-view.ts";
import type { Rules } from "./rules.ts";

/**
 * Orders the entries that may be evicted. Only `add`, `remove` and `victim` are required. Everything a policy needs to
 * know about an entry is in the columns of its context.
 */
export interface EvictionPolicy {
  /** The entry became evictable. */
  add(entry: EntryId): void;
  /** The entry is evictable no longer: somebody holds it, it was this policy's victim, or the index forgot it. */
  remove(entry: EntryId, why: "referenced" | "evicted" | "dropped"): void;
  /** The entry to go next. Only looks: asking twice gives the same. */
  victim(now: Nanos): EntryId | undefined;
  /** Inserted into the index by this request, which holds it. Whatever its number stood for before is over. */
  published?(entry: EntryId, request: RequestView): void;
  /** Matched by this request, also while another one holds it. */
  hit?(entry: EntryId, request: RequestView): void;
  /**
   * A run was cut in two, of which `upper` is new and held; both keep the history. `lower` is shorter now (`tokens`,
   * `recomputeCost`) and may be evictable.
   */
  split?(lower: EntryId, upper: EntryId): void;
  /** The entry's tail was evicted. */
  resized?(entry: EntryId): void;
  /** A request is about to be admitted (or refused for good). */
  begin?(request: RequestView, now: Nanos): void;
  /** Before the first request: reads what is to come. A policy that has this is offline. */
  prepare?(future: FutureView): void;
  /** `add` for `entries[0 .. count)`, which one request let go just now. `byScore` has it; no need to write one. */
  addMany?(entries: Int32Array, count: number): void;
  /**
   * Removes the next victims, in order, as if `victim` had returned and `remove` had been called with each, and writes
   * them to `into[from .. to)`; returns the place behind the last one. `byScore` has it; no need to write one.
   */
  takeMany?(into: Int32Array, from: number, to: number): number;
  /**
   * Adds `added`, unless it is −1, then removes and returns the next victim; −1 = there is none. `added` is the parent of
   * the leaf that this method returned before, and no other method was called in between. `byScore` has it.
   */
  takeNext?(added: EntryId): EntryId;
}

export interface EvictionContext {
  readonly columns: EntryColumns;
  readonly random: Random;
  /** Blocks of the cache; undefined when unlimited. */
  readonly capacityBlocks: number | undefined;
  readonly rules: Rules;
}

export interface EvictionPlugin extends Plugin {
  /** The columns that the policy reads; `key` need not be declared. `byScore` declares those of its scores. */
  readonly columns?: ColumnNeeds;
  create(context: EvictionContext): EvictionPolicy;
  /** The cache has no limit; the policy is never asked for a victim. A bound, not a policy to choose. */
  readonly unlimited?: true;
  /** Decides as `lru` does unless requests say priorities, or overlap: `compare` shows it to whoever asks for it. */
  readonly likeLru?: true;
  /** It reads the future. A bound, not a policy to choose. */
  readonly offline?: true;
}

/** The columns that a policy declares, under these rules. */
export function columnsOf({ columns = [] }: Pick<EvictionPlugin, "columns">, rules: Rules): readonly ColumnName[] {
  return typeof columns === "function" ? columns(rules) : columns;
}
