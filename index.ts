// What authors of plug-ins import: `import { byScore, type EvictionPolicy } from "kvlab"`.

export { InputError, InvariantError, PolicyError } from "./core/errors.ts";
export { byScore, type Score } from "./core/plugins/by-score.ts";
export type { EntryColumns } from "./core/plugins/entry-columns.ts";
export type * from "./core/plugins/index.ts";
export type { Random } from "./core/random.ts";
export { type Trace, TraceBuilder, type TraceRow, type TraceSource } from "./core/trace/trace.ts";
