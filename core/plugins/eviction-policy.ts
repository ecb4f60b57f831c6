import type { Random } from "../random.ts";
import type { Nanos } from "../trace/trace.ts";
import type { ColumnName, ColumnNeeds, EntryColumns, EntryId } from "./entry-columns.ts";
import type { Plugin, PluginOption } from "./plugin.ts";
import type { FutureView, ReplicaRequests, RequestView } from "./request-view.ts";
import type { Rules } from "./rules.ts";
import type { SessionViews, Signal } from "./signals.ts";

/** Why an entry is not evictable any more. */
export type RemovalReason = "referenced" | "evicted" | "expired" | "dropped";

/**
 * Orders the evictable entries. Only `add`, `remove` and `victim` are required. Properties of the entries are in the columns
 * of the context.
 */
export interface EvictionPolicy {
  /** The entry became evictable. */
  add(entry: EntryId): void;
  /**
   * The entry is not evictable any more: it is referenced, evicted as this policy's victim, evicted because it expired, or dropped
   * by the index.
   */
  remove(entry: EntryId, why: RemovalReason): void;
  /** The next eviction victim. Has no side effects: a second call returns the same entry. */
  victim(now: Nanos): EntryId | undefined;
  /** The request has inserted the entry and references it. The number may be that of an earlier, removed entry. */
  published?(entry: EntryId, request: RequestView): void;
  /** The request has matched the entry. */
  hit?(entry: EntryId, request: RequestView): void;
  /**
   * A run was split in two. `upper` is a new, referenced entry with the same times and counts; `lower` is shorter (`tokens`,
   * `recomputeCost`) and may be evictable.
   */
  split?(lower: EntryId, upper: EntryId): void;
  /** The entry's tail was evicted. */
  resized?(entry: EntryId): void;
  /** A request is about to be admitted, or is refused. */
  begin?(request: RequestView, now: Nanos): void;
  /**
   * Blocks `[from, to)` of the request are computed, or will be in this step, and would be stored; the content id of block i is
   * `request.keys[request.keyStart + i]`, and some of them may be stored already. Returns the first that is not to be stored, `to` =
   * none. No later block of this admission of the request is stored either, so that a stored prefix has no hole. An index of whole
   * prompts stores all of them or none. If absent, all blocks are stored.
   */
  admits?(request: RequestView, from: number, to: number): number;
  /**
   * The evictable entry that expires first; undefined = none ever expires. The cache evicts it when its time has come, although
   * its space is not needed. Has no side effects. Requires `expiresAt`.
   */
  nextToExpire?(): EntryId | undefined;
  /** Time at which this evictable entry expires, in ns since the start of the trace; may be `Infinity`. Has no side effects. */
  expiresAt?(entry: EntryId): Nanos;
  /**
   * A signal of a client about a session or a prefix. Signals have the order of time; those of a request's arrival come before its
   * admission, those of its end after the release of its blocks.
   */
  signal?(signal: Signal, now: Nanos): void;
  /** Called once, before the first request, with the whole trace. A policy with this method is offline. */
  prepare?(future: FutureView): void;
  /** `add` for `entries[0 .. count)`, which one request has released. Optional: `byScore` implements it. */
  addMany?(entries: Int32Array, count: number): void;
  /**
   * Removes the next victims, in order, as if `victim` had returned and `remove` had been called with each, and writes
   * them to `into[from .. to)`; returns the index after the last one. Optional: `byScore` implements it.
   */
  takeMany?(into: Int32Array, from: number, to: number): number;
  /**
   * Adds `added`, unless it is −1, then removes and returns the next victim; −1 = there is none. `added` is the parent of
   * the leaf that the last call of this method returned; no other method was called since. Optional: `byScore` implements it.
   */
  takeNext?(added: EntryId): EntryId;
}

/** The argument of an eviction policy's `create`, which is called once per cache. */
export interface EvictionContext {
  /** Facts about all entries, as typed arrays indexed by entry. */
  readonly columns: EntryColumns;
  /** Time of the operation under way. In a replay without a clock it is 0, unless the policy has `nextToExpire` or `signal`: then arrival times. */
  readonly clock: { readonly now: Nanos };
  /** The waiting and running requests of the replica. */
  readonly requests: ReplicaRequests;
  /** The sessions of the cache's requests; empty unless the policy has `signal`. */
  readonly sessions: SessionViews;
  /** The only source of random numbers, with the seed of the run. */
  readonly random: Random;
  /** Tokens of a whole block. */
  readonly blockTokens: number;
  /** Blocks of the cache; undefined if unlimited. */
  readonly capacityBlocks: number | undefined;
  /** The reuse rules in effect. */
  readonly rules: Rules;
  /** Values of the plug-in's `options`: those in its name, as in `ttl:ttl-s=60`, and the defaults of the others. */
  readonly options: Readonly<Record<string, number>>;
}

export interface EvictionPlugin extends Plugin {
  /** The columns that the policy reads; `key` need not be declared. `byScore` declares those of its scores. */
  readonly columns?: ColumnNeeds;
  /** Options, which the user appends to the name: `--eviction ttl:ttl-s=60`. */
  readonly options?: Readonly<Record<string, PluginOption>>;
  /** A policy for one cache. Policies of different caches share no state. */
  create(context: EvictionContext): EvictionPolicy;
  /** The cache is unlimited and never evicts: a bound. */
  readonly unlimited?: true;
  /** Equivalent to `lru` without priorities and overlapping requests: hidden from `compare` by default. */
  readonly likeLru?: true;
  /** Used only where it is named: not among the default policies of `compare`. */
  readonly onlyByName?: true;
  /** It reads the future: a bound. */
  readonly offline?: true;
}

/** The columns that a policy declares, under these rules. */
export function columnsOf({ columns = [] }: Pick<EvictionPlugin, "columns">, rules: Rules): readonly ColumnName[] {
  return typeof columns === "function" ? columns(rules) : columns;
}
