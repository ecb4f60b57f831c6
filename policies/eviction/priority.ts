import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ByLevel } from "./by-level.ts";

const highest = 99;

const levelOf = ({ priority }: RequestView) => Math.min(highest, Math.max(0, priority));
/** 0 is for ever. */
const lengthOf = (retentionNs: Nanos) => (retentionNs > 0 ? retentionNs : Number.POSITIVE_INFINITY);

/**
 * Lowest priority first, of equals least recently used first. An entry has the priority and the retention of the most
 * important request that stored or matched it, of equally important ones the longest retention; so long after its last
 * use it counts as priority 0, until it is used again. A run that is cut keeps both in both halves.
 */
class Priority extends ByLevel {
  constructor(context: EvictionContext) {
    super(context, { initial: 0, expired: 0, expiredPlace: "own" });
  }

  published(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    this.levels.claim(entry, levelOf(request), request.retentionNs ?? 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    const more = levelOf(request) - this.levels.levelOf(entry);
    const retentionNs = request.retentionNs ?? 0;
    const isLonger = lengthOf(retentionNs) > lengthOf(this.levels.durationOf(entry));
    if (more > 0 || (more === 0 && isLonger)) this.levels.claim(entry, levelOf(request), retentionNs);
  }
}

export const priority: EvictionPlugin = {
  name: "priority",
  about: "lowest priority first, then least recently used; drifts: after its retention an entry has priority 0",
  source: "SGLang (priority)",
  likeLru: true,
  create: (context) => new Priority(context),
};
