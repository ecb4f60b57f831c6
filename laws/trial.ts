import fc from "fast-check";
import { InputError, PolicyError } from "../core/errors.ts";
import { alwaysVictim, victimIsEvictable } from "./book.ts";
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
  /** Several caches must decide alike; otherwise each is of interest alone. */
  readonly compares?: true;
  cases(parts: Parts, small?: boolean): fc.Arbitrary<Case>;
  check(one: Case, parts: Parts): void;
}

/** A law that does not hold, with the smallest case that was found. */
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
  /** A seed for the cases; undefined: another one each time. */
  readonly seed?: number | undefined;
  /** Laws that are known to be broken: they are not looked for. */
  readonly known?: ReadonlySet<Law>;
  /** Only cases of a few requests. */
  readonly small?: boolean;
  /** Attempts to make a case smaller; undefined: as many as it takes. */
  readonly mostShrinks?: number;
  /** Does something before and after each check. */
  readonly around?: (check: () => void) => void;
}

/** The law that an error is about: the trial's first, where the cache itself fails. Undefined if the input is wrong. */
function lawOf(trial: Trial, error: unknown): Law | undefined {
  if (error instanceof LawBroken) return error.law;
  if (error instanceof PolicyError) return /no victim/.test(error.message) ? alwaysVictim : victimIsEvictable;
  return error instanceof InputError ? undefined : trial.laws[0];
}

/**
 * Runs a trial over the parts. A case is cut where it breaks a law, so for every law that is broken the trial is
 * repeated, and looks for the others.
 */
export function violations(trial: Trial, parts: Parts, options: TrialOptions): Violation[] {
  const { runs, around = (check) => check(), mostShrinks = Number.POSITIVE_INFINITY } = options;
  let { seed } = options;
  const found: Violation[] = [];
  const known = new Set<Law>(options.known);
  for (;;) {
    // While a case is made smaller it must go on breaking the same law.
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
