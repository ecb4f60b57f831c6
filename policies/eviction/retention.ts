import type { EntryId, EvictionContext, EvictionPlugin, RequestView } from "../../core/plugins/index.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import { ByLevel } from "./by-level.ts";
import { defaultPriority, highestPriority } from "./levels.ts";

/** Priority 0 means that the request has none; then the entry's level is unchanged. Negative priorities are level 0. */
const levelOf = ({ priority }: RequestView) =>
  priority === 0 ? undefined : Math.min(highestPriority, Math.max(0, priority));

/**
 * Evicts from the lowest non-empty of 101 levels, in release order within a level (TensorRT-LLM). The last request that used
 * the entry sets its level, if it has a priority, and the duration, which begins at the release. After that the entry moves to
 * the end of level 35, the level of entries without a priority. After a split both halves have the same level and duration.
 *
 * Difference to TensorRT-LLM: a request has one priority; TensorRT-LLM has one per range of its tokens (`prioritiesByBlock`).
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
    this.levels.setLevel(entry, levelOf(request) ?? defaultPriority, request.retentionNs ?? 0);
  }

  hit(entry: EntryId, request: RequestView): void {
    this.lastUse.used(entry);
    this.levels.setLevel(entry, levelOf(request), request.retentionNs ?? 0);
  }
}

export const retention: EvictionPlugin = {
  name: "retention",
  about: "evicts the lowest of 101 levels, in release order; an entry moves to level 35 after its retention",
  source: "TensorRT-LLM",
  likeLru: true,
  columns: ["lastAccess"],
  create: (context) => new Retention(context),
};
