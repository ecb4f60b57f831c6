// The contracts of all plug-ins.

export type * from "./allocator.ts";
export type { BlockId, ColumnName, ColumnNeeds, EntryColumns, EntryId, Insertion } from "./entry-columns.ts";
export type * from "./eviction-policy.ts";
export type * from "./plugin.ts";
export type * from "./prefix-index.ts";
export type * from "./request-view.ts";
export type * from "./router.ts";
export type * from "./scheduler.ts";
export type { SessionView, SessionViews, Signal, SignalName } from "./signals.ts";
