import type { EntryId, EvictionContext, EvictionPlugin, EvictionPolicy, RequestView } from "../../core/plugins.ts";
import type { Nanos } from "../../core/trace.ts";
import { LastUse } from "./last-use.ts";
import { Levels } from "./levels.ts";

const highest = 99;

const levelOf = ({ priority }: RequestView) => Math.min(highest, Math.max(0, priority));
/** 0 is for ever. */
const lengthOf = (retentionNs: Nanos) => (retentionNs > 0 ? retentionNs : Number.POSITIVE_INFINITY);

/**
 * Lowest priority first, of equals least recently used first. An entry has the priority and the retention of the most
 * important request that stored or matched it, of equally important ones the longest retention; so long after its last
 * use it counts as priority 0, until it is used again. A run that is cut keeps both in both halves.
 */
class Priority implements EvictionPolicy {
  readonly #lastAccess: Uint32Array;
  readonly #lastUse: LastUse;
  readonly #levels: Levels;

  constructor({ columns }: EvictionContext) {
    this.#lastAccess = columns.lastAccess;
    this.#lastUse = new LastUse(columns.lastAccess);
    this.#levels = new Levels(columns.key.length, { initial: 0, expired: 0, expiredPlace: "own" });
  }

  begin(request: RequestView, now: Nanos): void {
    this.#lastUse.begin(request, now);
  }

  published(entry: EntryId, request: RequestView): void {
    this.#lastUse.used(entry);
    this.#levels.claim(entry, levelOf(request), request.retentionNs ?? 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.#lastUse.used(entry);
    const more = levelOf(request) - this.#levels.levelOf(entry);
    const retentionNs = request.retentionNs ?? 0;
    const isLonger = lengthOf(retentionNs) > lengthOf(this.#levels.durationOf(entry));
    if (more > 0 || (more === 0 && isLonger)) this.#levels.claim(entry, levelOf(request), retentionNs);
  }

  split(lower: EntryId, upper: EntryId): void {
    this.#lastUse.split(lower, upper);
    this.#levels.claim(upper, this.#levels.levelOf(lower), this.#levels.durationOf(lower));
  }

  add(entry: EntryId): void {
    this.#levels.add(entry, this.#lastUse.letGo(entry), this.#lastAccess[entry]);
  }

  remove(entry: EntryId): void {
    this.#levels.remove(entry);
  }

  victim(now: Nanos): EntryId | undefined {
    return this.#levels.victim(Math.max(now, this.#lastUse.now));
  }
}

export const priority: EvictionPlugin = {
  name: "priority",
  about: "lowest priority first, then least recently used; drifts: after its retention an entry has priority 0",
  source: "SGLang (priority)",
  asLru: true,
  create: (context) => new Priority(context),
};
