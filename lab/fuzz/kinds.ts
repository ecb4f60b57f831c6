import type { Trace } from "../../core/trace/trace.ts";
import type { Operation } from "../run/operations-file.ts";
import type { FuzzParts, Setup } from "./setup.ts";

/** A trace, how it is served, and what an operator does meanwhile. */
export interface FuzzCase {
  readonly trace: Trace;
  readonly setup: Setup;
  /** In the order of the requests before which they come. */
  readonly operations: readonly Operation[];
}

export const kindNames = ["sim-engine", "caching", "fast-forward", "indexes", "event-log"] as const;
export type KindName = (typeof kindNames)[number];

/** What is wrong with a case. */
export interface Trouble {
  /** Shrinking goes on only with trouble of the same sort. */
  readonly sort: string;
  readonly message: string;
}

/** What a case did, so that it can be seen that something was tried. */
export interface Checked {
  /** Decisions that were compared, by what was decided. */
  readonly decisions: Readonly<Record<string, number>>;
  readonly trouble: Trouble | undefined;
}

/** A way to look for trouble. */
export interface FuzzKind {
  readonly name: KindName;
  /** What must hold, as a sentence. */
  readonly says: string;
  /** @throws Whatever is thrown is trouble, but InputError: there is no such configuration. */
  check(one: FuzzCase, parts: FuzzParts): Promise<Checked>;
  /** The command of others that shows what was found, for a trace and operations in these files, if there is one. */
  command?(setup: Setup, file: string, operationsFile?: string): string | undefined;
}
