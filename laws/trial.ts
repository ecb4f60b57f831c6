import fc from "fast-check";
import { InputError, PolicyError } from "../core/errors.ts";
import { alwaysVictim, victimIsEvictable } from "./contract-laws.ts";
import { type Law, LawBroken } from "./law.ts";
import type { PluginSet } from "./plugin-set.ts";
import type { Scenario } from "./scenario.ts";

/** A workload and a cache; without a script of decisions, requests are served one at a time. */
export type Case = Omit<Scenario, "script"> & Partial<Pick<Scenario, "script">> & { readonly batchOf?: number };

/** Random cases, and a check that throws `LawBroken` where a law does not hold. */
export interface Trial {
  /** The laws that the check can find broken. An error that names no law is a violation of the first. */
  readonly laws: readonly [Law, ...Law[]];
  /** Number of cases, relative to 100 of the main trial. */
  readonly runs: number;
  /** The check compares several caches that must make the same decisions. */
  readonly compares?: true;
  cases(parts: PluginSet, small?: boolean): fc.Arbitrary<Case>;
  check(one: Case, parts: PluginSet): void;
}

/** A law that does not hold, with the smallest counterexample found. */
export interface Violation {
  readonly law: Law;
  readonly trial: Trial;
  readonly message: string;
  readonly error: Error;
  readonly case: Case;
  readonly seed: number;
}

export interface TrialOptions {
  readonly runs: number;
  /** Seed of the cases; undefined: a random one. */
  readonly seed?: number | undefined;
  /** Laws that are known to be broken: their violations are ignored. */
  readonly known?: ReadonlySet<Law>;
  /** Only cases of a few requests. */
  readonly small?: boolean;
  /** Most attempts to shrink a case; undefined: no limit. */
  readonly mostShrinks?: number;
  /** Wraps each check. */
  readonly around?: (check: () => void) => void;
}

/** The law that an error violates: the trial's first if an assertion of the cache fails; undefined for invalid input. */
function lawOf(trial: Trial, error: unknown): Law | undefined {
  if (error instanceof LawBroken) return error.law;
  if (error instanceof PolicyError) return /no victim/.test(error.message) ? alwaysVictim : victimIsEvictable;
  return error instanceof InputError ? undefined : trial.laws[0];
}

/**
 * Runs a trial with the plug-ins. A case ends at its first violation, so after each broken law the trial is repeated to
 * find violations of the others.
 */
export function violations(trial: Trial, parts: PluginSet, options: TrialOptions): Violation[] {
  const { runs, around = (check) => check(), mostShrinks = Number.POSITIVE_INFINITY } = options;
  let { seed } = options;
  const found: Violation[] = [];
  const known = new Set<Law>(options.known);
  for (;;) {
    // While a case is shrunk it must break the same law.
    let law: Law | undefined;
    let shrinks = 0;
    const property = fc.property(trial.cases(parts, options.small), (one) => {
      if (law !== undefined && ++shrinks > mostShrinks) return;
      try {
        around(() => trial.check(one, parts));
      } catch (error) {
        const broken = lawOf(trial, error);
        if (broken === undefined) throw error;
        if (known.has(broken) || (law !== undefined && law !== broken)) return;
        law = broken;
        throw error;
      }
    });
    const details = fc.check(property, { numRuns: Math.max(1, runs), ...(seed !== undefined && { seed }) });
    if (!details.failed) return found;
    const error = details.errorInstance as Error;
    if (law === undefined) throw error;
    seed ??= details.seed;
    known.add(law);
    found.push({ law, trial, message: error.message, error, case: details.counterexample![0], seed });
  }
}
