import type { AllocatorPlugin, EvictionPlugin, IndexPlugin, SchedulerPlugin } from "../core/plugins/index.ts";

/** The plug-ins of which caches are composed. The plug-in under test is the only one of its kind. */
export interface PluginSet {
  readonly indexes: readonly IndexPlugin[];
  readonly evictions: readonly EvictionPlugin[];
  readonly allocators: readonly AllocatorPlugin[];
  readonly schedulers: readonly SchedulerPlugin[];
  /** Plug-ins with which the one under test is combined or compared. */
  readonly reference: {
    /** An index whose entries are single blocks. */
    readonly index: IndexPlugin;
    readonly eviction: EvictionPlugin;
    readonly optimum: EvictionPlugin;
    readonly scheduler: SchedulerPlugin;
  };
}
