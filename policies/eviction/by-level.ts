import type { EntryId, EvictionContext, EvictionPolicy, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { LastUse } from "./last-use.ts";
import { type LevelOptions, Levels } from "./levels.ts";

/**
 * Base of `priority` and `retention`: evicts from the lowest non-empty level, in release order within the level. An entry
 * has its level for a duration after its last use. Subclasses set level and duration from the requests that publish or
 * match the entry. After a split both halves have the same level and duration.
 */
export abstract class ByLevel implements EvictionPolicy {
  protected readonly lastUse: LastUse;
  protected readonly levels: Levels;
  readonly #lastAccess: Uint32Array;

  constructor({ columns }: EvictionContext, options: LevelOptions) {
    this.#lastAccess = columns.lastAccess;
    this.lastUse = new LastUse(columns.lastAccess);
    this.levels = new Levels(columns.key.length, options);
  }

  abstract published(entry: EntryId, request: RequestView): void;
  abstract hit(entry: EntryId, request: RequestView): void;

  begin(request: RequestView, now: Nanos): void {
    this.lastUse.begin(request, now);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.lastUse.split(lower, upper);
    this.levels.setLevel(upper, this.levels.levelOf(lower), this.levels.durationOf(lower));
  }

  add(entry: EntryId): void {
    this.levels.add(entry, this.lastUse.becameEvictable(entry), this.#lastAccess[entry]);
  }

  remove(entry: EntryId): void {
    this.levels.remove(entry);
  }

  victim(now: Nanos): EntryId | undefined {
    return this.levels.victim(Math.max(now, this.lastUse.now));
  }
}
