import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ByLevel } from "./by-level.ts";

const highest = 99;

const levelOf = ({ priority }: RequestView) => Math.min(highest, Math.max(0, priority));
/** A retention of 0 is unlimited. */
const durationOf = (retentionNs: Nanos) => (retentionNs > 0 ? retentionNs : Number.POSITIVE_INFINITY);

/**
 * Evicts the entry with the lowest priority, of equals the least recently used (SGLang's `priority` strategy). An entry has the
 * highest priority of the requests that published or matched it, and of those the longest retention. When that time has passed
 * since its last use, its priority is 0 until it is used again; retention is our addition. After a split both halves keep the
 * priority and the retention.
 */
class Priority extends ByLevel {
  constructor(context: EvictionContext) {
    super(context, { initial: 0, expired: 0, expiredPlace: "own" });
  }

  published(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    this.levels.setLevel(entry, levelOf(request), request.retentionNs ?? 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    const more = levelOf(request) - this.levels.levelOf(entry);
    const retentionNs = request.retentionNs ?? 0;
    const isLonger = durationOf(retentionNs) > durationOf(this.levels.durationOf(entry));
    if (more > 0 || (more === 0 && isLonger)) this.levels.setLevel(entry, levelOf(request), retentionNs);
  }
}

export const priority: EvictionPlugin = {
  name: "priority",
  about: "evicts the lowest priority, of equals the least recently used; an entry's priority is 0 after its retention",
  source: "SGLang (priority)",
  likeLru: true,
  columns: ["lastAccess"],
  create: (context) => new Priority(context),
};
