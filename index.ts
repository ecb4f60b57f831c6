// What authors of plug-ins import: `import { byScore, type EvictionPolicy } from "kvlab"`.
export { byScore, type Score } from "./core/by-score.ts";
export type { EntryColumns } from "./core/entries.ts";
export { InputError, InvariantError, PolicyError } from "./core/errors.ts";
export type * from "./core/plugins.ts";
export type { Random } from "./core/random.ts";
