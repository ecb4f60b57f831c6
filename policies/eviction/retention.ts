import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ByLevel } from "./by-level.ts";
import { defaultPriority, highestPriority } from "./levels.ts";

/** A request without priority, or with 0, says nothing; level 0 is what is below that. */
const levelOf = ({ priority }: RequestView) =>
  priority === 0 ? undefined : Math.min(highestPriority, Math.max(0, priority));

/**
 * The lowest of 101 levels first, in a level whoever was let go first. The request that uses an entry last says its level
 * (if it says one) and for how long, from the time when it is let go; after that it is one of level 35 like those that
 * nothing was said of, behind all that are there. A run that is cut keeps both in both halves.
 *
 * Here a request has one priority. TensorRT-LLM has one for each range of its tokens (`prioritiesByBlock`).
 */
class Retention extends ByLevel {
  constructor(context: EvictionContext) {
    super(context, { initial: defaultPriority, expired: defaultPriority, expiredPlace: "end" });
  }

  override begin(request: RequestView, now: Nanos): void {
    super.begin(request, now);
    this.levels.refresh(this.lastUse.now);
  }

  published(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    this.levels.claim(entry, levelOf(request) ?? defaultPriority, request.retentionNs ?? 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    this.levels.claim(entry, levelOf(request), request.retentionNs ?? 0);
  }
}

export const retention: EvictionPlugin = {
  name: "retention",
  about: "lowest of 101 levels first, then first let go; drifts: after its retention an entry is of level 35",
  source: "TensorRT-LLM",
  likeLru: true,
  create: (context) => new Retention(context),
};
