import fc from "fast-check";
import { InvariantError, PolicyError } from "../core/errors.ts";
import { alwaysAVictim, mayGo } from "./book.ts";
import { type Law, LawBroken } from "./law.ts";
import type { Parts } from "./parts.ts";
import type { Scenario } from "./scenario.ts";

/** Requests and a cache for them; without decisions of a script they are served one at a time. */
export type Case = Omit<Scenario, "script"> & Partial<Pick<Scenario, "script">> & { readonly batchOf?: number };

/** Cases at random, and a check that breaks laws where they do not hold. */
export interface Trial {
  /** What it can find broken. A complaint that names no law is about the first. */
  readonly laws: readonly [Law, ...Law[]];
  /** Cases, when others run a hundred. */
  readonly runs: number;
  cases(parts: Parts): fc.Arbitrary<Case>;
  check(one: Case, parts: Parts): void;
}

/** A law that does not hold, with the smallest case that was found. */
export interface Violation {
  readonly law: Law;
  readonly message: string;
  readonly error: Error;
  readonly case: Case;
  readonly seed: number;
}

export interface TrialOptions {
  readonly runs: number;
  /** A seed for the cases; undefined: another one each time. */
  readonly seed?: number | undefined;
  /** Laws that are known to be broken: they are not looked for. */
  readonly known?: ReadonlySet<Law>;
  /** Does something before and after each check. */
  readonly around?: (check: () => void) => void;
}

/** The law that an error is about; undefined if it is not about a law. */
export function lawOf(trial: Trial, error: unknown): Law | undefined {
  if (error instanceof LawBroken) return error.law;
  if (error instanceof PolicyError) return /no victim/.test(error.message) ? alwaysAVictim : mayGo;
  return error instanceof InvariantError ? trial.laws[0] : undefined;
}

/**
 * Runs a trial over the parts. A case is cut where it breaks a law, so for every law that is broken the trial is
 * repeated, and looks for the others.
 */
export function violations(trial: Trial, parts: Parts, options: TrialOptions): Violation[] {
  const { runs, around = (check) => check() } = options;
  let { seed } = options;
  const found: Violation[] = [];
  const known = new Set<Law>(options.known);
  for (;;) {
    // While a case is made smaller it must go on breaking the same law.
    let law: Law | undefined;
    const property = fc.property(trial.cases(parts), (one) => {
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
    found.push({ law, message: error.message, error, case: details.counterexample![0], seed });
  }
}
