import fc from "fast-check";
import type { Checker, CheckResult, Finding } from "./check-plugin.ts";
import { callsReturn } from "./contract-laws.ts";
import { type Law, LawBroken } from "./law.ts";
import { type NondeterministicSources, noHiddenInputs } from "./nondeterminism.ts";
import { withinTime } from "./time-limit.ts";

/** Laws of one part, and random cases in which they can be broken. */
export interface PartTrial<Case = unknown> {
  readonly laws: readonly Law[];
  readonly cases: fc.Arbitrary<Case>;
  check(one: Case): void;
}

/** The same trial without its type of case. */
export const partTrial = <Case>(trial: PartTrial<Case>): PartTrial => trial as PartTrial;

/** Longest time of one case, in milliseconds. */
const caseMs = 2_000;
const mostShrinkMs = 2_000;

/** Runs the trials of an allocator, a scheduler, a router, a cost model or a trace reader. */
export async function checkPart(trials: readonly PartTrial[], checker: Checker): Promise<CheckResult> {
  const { runs, seed, sources, describe, advance } = checker;
  const findings = new Map<Law, Finding>();
  for (const { laws, cases, check } of trials) {
    await advance(laws[0].statement);
    for (const law of laws) if (!findings.has(law)) findings.set(law, { law, result: "holds" });
    const property = fc.property(cases, (one) => {
      if (withinTime(caseMs, () => check(one))) return;
      throw new LawBroken(callsReturn, `a call does not return: it still ran after ${caseMs / 1000} s`);
    });
    const found = fc.check(property, { seed, numRuns: runs, interruptAfterTimeLimit: runs * 10 + mostShrinkMs });
    if (!found.failed || found.counterexample === null) continue;
    const error = found.errorInstance;
    const law = error instanceof LawBroken ? error.law : callsReturn;
    const message = error instanceof LawBroken ? error.message : `threw: ${describe(error)}`;
    findings.set(law, {
      law,
      result: "broken",
      message,
      counterexample: `case: ${fc.stringify(found.counterexample[0])}`,
    });
  }
  const uses = sources.uses();
  findings.set(
    noHiddenInputs,
    uses.length === 0 ? { law: noHiddenInputs, result: "holds" } : broken(noHiddenInputs, uses.join("; ")),
  );
  return { findings: [...findings.values()], growth: undefined, indexGrowth: undefined };
}

/** The same plug-in; clocks and chance that a method reads are recorded with the name of the method. */
export function recorded<P extends object>(plugin: P, sources: NondeterministicSources): P {
  return new Proxy(plugin, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]) => {
        const before = sources.reader;
        sources.reader = () => `in ${String(name)}()`;
        try {
          const result: unknown = value.apply(target, args);
          return name === "create" && typeof result === "object" && result ? recorded(result, sources) : result;
        } finally {
          sources.reader = before;
        }
      };
    },
  });
}

const broken = (law: Law, message: string): Finding => ({ law, result: "broken", message });
