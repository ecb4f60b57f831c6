import type { EntryId, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/**
 * When each entry was last in use, in nanoseconds. A policy is told the time when a request begins, so what is let go
 * was last used when the latest request began. An entry that becomes evictable later than it was let go (a tree's
 * inner run, when what extended it has gone) was last used when its last user began.
 *
 * A replay without a clock says that it is 0; there a request begins when it arrives, which it never does later.
 */
export class LastUse {
  readonly #lastAccess: Uint32Array;
  readonly #usedNs: Float64Array;
  /** When the latest request began. */
  now: Nanos = 0;
  /** Tick of the latest release, and the time then. */
  #latestTick = 0;
  #latestNs: Nanos = 0;

  /** `lastAccess`: by entry, the tick at which it was let go. */
  constructor(lastAccess: Uint32Array) {
    this.#lastAccess = lastAccess;
    this.#usedNs = new Float64Array(lastAccess.length);
  }

  begin({ arrivalNs }: RequestView, now: Nanos): void {
    this.now = Math.max(this.now, now, arrivalNs);
  }

  /** A request stores or matches it. */
  used(entry: EntryId): void {
    this.#usedNs[entry] = this.now;
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#usedNs[upper] = this.#usedNs[lower];
  }

  /** It becomes evictable: the time of its last use. */
  letGo(entry: EntryId): Nanos {
    const tick = this.#lastAccess[entry];
    if (tick > this.#latestTick) {
      this.#latestTick = tick;
      this.#latestNs = this.now;
    }
    if (tick === this.#latestTick) this.#usedNs[entry] = this.#latestNs;
    return this.#usedNs[entry];
  }
}
