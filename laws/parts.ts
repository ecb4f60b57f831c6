import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, SchedulerPlugin } from "../core/plugins/index.ts";

/** What caches are put together from. The part that is looked at is the only one of its kind. */
export interface Parts {
  readonly indexes: readonly IndexPlugin[];
  readonly evictions: readonly EvictionPlugin[];
  readonly allocators: readonly AllocatorPlugin[];
  readonly schedulers: readonly SchedulerPlugin[];
  /** Parts that others are measured by. */
  readonly known: {
    /** Stores blocks one by one. */
    readonly index: IndexPlugin;
    readonly eviction: EvictionPlugin;
    readonly optimum: EvictionPlugin;
    readonly scheduler: SchedulerPlugin;
  };
}
