import type { EntryId, EvictionContext, EvictionPolicy, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { LastUse } from "./last-use.ts";
import { type LevelOptions, Levels } from "./levels.ts";

/**
 * The lowest level first, in a level whoever was let go first; a level holds for a time after the last use. What a request
 * says of an entry's level is for those who extend this. A run that is cut keeps level and time in both halves.
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
    this.levels.claim(upper, this.levels.levelOf(lower), this.levels.durationOf(lower));
  }

  add(entry: EntryId): void {
    this.levels.add(entry, this.lastUse.letGo(entry), this.#lastAccess[entry]);
  }

  remove(entry: EntryId): void {
    this.levels.remove(entry);
  }

  victim(now: Nanos): EntryId | undefined {
    return this.levels.victim(Math.max(now, this.lastUse.now));
  }
}
