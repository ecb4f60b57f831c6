import type { Trace } from "../../core/trace.ts";
import type { FuzzParts, Setup } from "./setup.ts";

/** A trace, and how it is served. */
export interface FuzzCase {
  readonly trace: Trace;
  readonly setup: Setup;
}

export const kindNames = ["sim-engine", "indexes"] as const;
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
  /** The command of others that shows what was found, for a trace in this file. */
  command(setup: Setup, file: string): string;
}
