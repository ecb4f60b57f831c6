import type {
  EntryId,
  EvictionContext,
  EvictionPlugin,
  EvictionPolicy,
  RequestView,
} from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { LastUse } from "./last-use.ts";
import { ScoreHeap } from "./score-heap.ts";

/**
 * An entry expires when it has not been used for its time to live; if space is needed before, the entry that would expire first is
 * evicted, which is the least recently used one if all have the same time to live. A request with a retention sets the time to live
 * of the entries that it publishes or matches. Hosted APIs cache prompts in this way: Anthropic's for 5 minutes, refreshed by each use
 * (prompt caching, 2024). Difference: in a tree only leaves expire, so an inner node remains as long as its children do.
 */
class TimeToLive implements EvictionPolicy {
  readonly #clock: EvictionContext["clock"];
  readonly #ttlNs: Nanos;
  readonly #lastUse: LastUse;
  /** By entry: its time to live. */
  readonly #durationNs: Float64Array;
  /** By the time at which they expire, of equals in the order in which they became evictable. */
  readonly #evictable: ScoreHeap;
  #added = 0;

  constructor({ clock, columns, options }: EvictionContext) {
    const entries = columns.key.length;
    this.#clock = clock;
    this.#ttlNs = options["ttl-s"] * 1e9;
    this.#lastUse = new LastUse(columns.lastAccess);
    this.#durationNs = new Float64Array(entries);
    this.#evictable = new ScoreHeap(entries);
  }

  published(entry: EntryId, request: RequestView): void {
    this.#used(entry, request);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.#used(entry, request);
  }

  #used(entry: EntryId, { retentionNs = 0 }: RequestView): void {
    this.#lastUse.now = this.#clock.now;
    this.#lastUse.used(entry);
    this.#durationNs[entry] = retentionNs > 0 ? retentionNs : this.#ttlNs;
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#lastUse.split(lower, upper);
    this.#durationNs[upper] = this.#durationNs[lower];
  }

  add(entry: EntryId): void {
    this.#lastUse.now = this.#clock.now;
    this.#evictable.add(entry, this.#lastUse.becameEvictable(entry) + this.#durationNs[entry], this.#added++);
  }

  remove(entry: EntryId): void {
    this.#evictable.remove(entry);
  }

  victim(): EntryId | undefined {
    return this.#evictable.first();
  }

  nextToExpire(): EntryId | undefined {
    return this.#evictable.first();
  }

  expiresAt(entry: EntryId): Nanos {
    return this.#evictable.scoreOf(entry);
  }
}

export const ttl: EvictionPlugin = {
  name: "ttl",
  about: "an entry expires when it has not been used for its time to live; evicts the entry that would expire first",
  source: "Anthropic prompt caching (2024)",
  onlyByName: true,
  columns: ["lastAccess"],
  options: {
    "ttl-s": {
      about: "time to live of entries of requests without a retention, in seconds",
      default: 300,
      fraction: true,
    },
  },
  create: (context) => new TimeToLive(context),
};
