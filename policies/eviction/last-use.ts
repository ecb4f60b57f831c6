import type { EntryId, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/**
 * The time of each entry's last use, in nanoseconds. A policy gets the time only at admissions (`begin`), so the release of an
 * entry is dated to the latest admission. An entry that becomes evictable after its release (an inner node of a radix tree,
 * when its last child is evicted) was last used at the admission of the last request that used it.
 *
 * Without a clock `now` is always 0; then a request is admitted at its arrival time.
 */
export class LastUse {
  readonly #lastAccess: Uint32Array;
  readonly #usedNs: Float64Array;
  /** Time of the latest admission. */
  now: Nanos = 0;
  /** Tick of the latest release, and its time. */
  #latestTick = 0;
  #latestNs: Nanos = 0;

  /** `lastAccess`: by entry, the tick of its last release. */
  constructor(lastAccess: Uint32Array) {
    this.#lastAccess = lastAccess;
    this.#usedNs = new Float64Array(lastAccess.length);
  }

  begin({ arrivalNs }: RequestView, now: Nanos): void {
    this.now = Math.max(this.now, now, arrivalNs);
  }

  /** The current request publishes or matches the entry. */
  used(entry: EntryId): void {
    this.#usedNs[entry] = this.now;
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#usedNs[upper] = this.#usedNs[lower];
  }

  /** The entry became evictable; returns the time of its last use. */
  becameEvictable(entry: EntryId): Nanos {
    const tick = this.#lastAccess[entry];
    if (tick > this.#latestTick) {
      this.#latestTick = tick;
      this.#latestNs = this.now;
    }
    if (tick === this.#latestTick) this.#usedNs[entry] = this.#latestNs;
    return this.#usedNs[entry];
  }
}
