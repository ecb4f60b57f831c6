import type { Trace } from "../../core/trace/trace.ts";
import type { Operation } from "../run/operations-file.ts";
import type { FuzzParts, Setup } from "./setup.ts";

/** A trace, the configuration that serves it, and operations during the run. */
export interface FuzzCase {
  readonly trace: Trace;
  readonly setup: Setup;
  /** Ordered by the request before which they run. */
  readonly operations: readonly Operation[];
}

export const kindNames = ["sim-engine", "caching", "fast-forward", "indexes", "event-log"] as const;
export type KindName = (typeof kindNames)[number];

/** The failure of a case. */
export interface Failure {
  /** Shrinking continues only with failures of the same category. */
  readonly category: string;
  readonly message: string;
}

/** The result of a case. */
export interface Checked {
  /** Number of compared decisions by kind, which shows that a search tests something. */
  readonly decisions: Readonly<Record<string, number>>;
  readonly failure: Failure | undefined;
}

/** A search for counterexamples. */
export interface FuzzKind {
  readonly name: KindName;
  /** The property that must hold, as a sentence. */
  readonly property: string;
  /** Any error is a failure, except InputError: the configuration is not supported. */
  check(one: FuzzCase, parts: FuzzParts): Promise<Checked>;
  /** Another command that shows the finding, for a trace and operations in these files. */
  command?(setup: Setup, file: string, operationsFile?: string): string | undefined;
}
