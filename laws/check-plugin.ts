import type { EvictionPlugin, IndexPlugin } from "../core/plugins/index.ts";
import { type Call, CallLog, callLines, fromDivergence, lastCalls, recordedIndex, recordedPolicy } from "./calls.ts";
import { caseText } from "./case-text.ts";
import {
  addRemoveAlternate,
  alwaysVictim,
  callsReturn,
  conservation,
  failedAdmission,
  longestMatch,
  victimIsEvictable,
  victimIsPure,
} from "./contract-laws.ts";
import { constantCost, type Growth, growsTooMuch, measureGrowth, requireConstantCost, type Stopwatch } from "./cost.ts";
import { determinism, deterministic } from "./determinism.ts";
import { everyRule, ruleTrials } from "./every-rule.ts";
import { constantIndexCost, measureIndex, requireConstantIndexCost, type ShapeGrowth } from "./index-cost.ts";
import { type Law, LawBroken, require } from "./law.ts";
import { type NondeterministicSources, noHiddenInputs } from "./nondeterminism.ts";
import type { PluginSet } from "./plugin-set.ts";
import { withinTime } from "./time-limit.ts";
import { type Trial, type Violation, violations } from "./trial.ts";
import { evictionTrials, indexTrials } from "./trials.ts";

/** The result of checking one law. */
export interface Finding {
  readonly law: Law;
  readonly result: "holds" | "broken" | "not-tried";
  /** The violation, or the reason why the law was not tried. */
  readonly message?: string;
  /** The smallest counterexample as text: cache, requests and decisions. */
  readonly counterexample?: string;
  /** The calls of the plug-in in that case; if two caches are compared, the calls around their first difference. */
  readonly calls?: readonly string[];
}

/** The results of all laws and measurements. */
export interface CheckResult {
  readonly findings: readonly Finding[];
  /** Cost of an eviction policy's operations; undefined if not measured. */
  readonly growth: Growth | undefined;
  /** Cost per block of an index, by shape of the prompts; undefined if not measured. */
  readonly indexGrowth: readonly ShapeGrowth[] | undefined;
}

export interface Checker {
  /** Number of cases of the main trial; the others are scaled. */
  readonly runs: number;
  readonly seed: number;
  readonly sources: NondeterministicSources;
  readonly stopwatch: Stopwatch;
  /** Formats a value thrown by the plug-in in one line. */
  describe(error: unknown): string;
  /** Progress callback: the law that is checked next. */
  advance(what: string): Promise<void>;
}

/** Time limits of a case and of the cost measurement. */
const caseMs = 2_000;
const costMs = 60_000;

/** Measuring time per number of entries; grows with the number of cases. */
const leastMeasureMs = 30;
const mostMeasureMs = 250;

/** Limits of shrinking: attempts, and for a case that does not return, time per attempt and in all. */
const mostShrinks = { small: 1000, large: 200 } as const;
const hangingMs = 200;
const shrinkingMs = 500;

/** If one of these laws is broken, the other laws are not tried. */
const firstOfPolicy: readonly Law[] = [callsReturn, victimIsEvictable, alwaysVictim];
const firstOfIndex: readonly Law[] = [callsReturn, addRemoveAlternate, conservation, longestMatch];

/** Checks every law for an eviction policy. */
export function checkPolicy(plugin: EvictionPlugin, parts: PluginSet, checker: Checker): Promise<CheckResult> {
  const log = logFor(checker);
  const own = { ...parts, evictions: [recordedPolicy(plugin, log)] };
  const laws = [...firstOfPolicy, victimIsPure, conservation, longestMatch, failedAdmission];
  const share = plugin.unlimited ? 0.2 : 1;
  return new PluginCheck(own, log, { ...checker, runs: checker.runs * share }).policy(plugin, laws);
}

/** Checks every law for an index. */
export function checkIndex(plugin: IndexPlugin, parts: PluginSet, checker: Checker): Promise<CheckResult> {
  const log = logFor(checker);
  const own = { ...parts, indexes: [recordedIndex(plugin, log)] };
  return new PluginCheck(own, log, checker).index(plugin, [...firstOfIndex, failedAdmission]);
}

function logFor({ describe, sources }: Checker): CallLog {
  const log = new CallLog(describe, () => sources.jump());
  sources.reader = () => (log.open === undefined ? undefined : `in ${log.open}()`);
  return log;
}

/** Fields added to the error of a broken law: calls and decisions that led to it. */
interface FailureDetails {
  calls?: readonly (readonly Call[])[];
  decisions?: readonly string[];
}

class PluginCheck {
  readonly #parts: PluginSet;
  readonly #log: CallLog;
  readonly #checker: Checker;
  readonly #broken = new Map<Law, Finding>();
  readonly #skipped = new Map<Law, string>();
  #first: readonly Law[] = [];
  /** Time of the first call that did not return, in ms. */
  #hangsSince: number | undefined;

  constructor(parts: PluginSet, log: CallLog, checker: Checker) {
    this.#parts = parts;
    this.#log = log;
    this.#checker = checker;
  }

  async policy(plugin: EvictionPlugin, some: readonly Law[]): Promise<CheckResult> {
    this.#first = firstOfPolicy;
    const laws = await this.#tryAll(evictionTrials, some);
    const isBound = plugin.unlimited || this.#log.readsFuture;
    const growth = await this.#measure(constantCost, isBound ? "bounds are not measured" : undefined, (now, ms) => {
      const once = measureGrowth(plugin, now, ms);
      // Measured twice before it fails, as other load on the machine can distort one measurement.
      const again = growsTooMuch(once) ? measureGrowth(plugin, now, ms) : once;
      return again.exponent < once.exponent ? again : once;
    });
    this.#judge(constantCost, growth, requireConstantCost);
    // `add-remove-alternate` mainly tests the index; for a policy it is listed only if it is violated.
    const findings = this.#findings([...laws, noHiddenInputs, everyRule, constantCost]);
    return {
      findings: findings.filter(({ law, result }) => law !== addRemoveAlternate || result === "broken"),
      growth,
      indexGrowth: undefined,
    };
  }

  async index(plugin: IndexPlugin, some: readonly Law[]): Promise<CheckResult> {
    this.#first = firstOfIndex;
    const laws = await this.#tryAll(indexTrials, some);
    const skip = plugin.storesNothing ? "it stores no blocks" : undefined;
    const indexGrowth = await this.#measure(constantIndexCost, skip, (now, ms) =>
      measureIndex(plugin, this.#parts, now, ms),
    );
    this.#judge(constantIndexCost, indexGrowth, requireConstantIndexCost);
    return {
      findings: this.#findings([...laws, noHiddenInputs, everyRule, constantIndexCost]),
      growth: undefined,
      indexGrowth,
    };
  }

  /** Runs all trials; returns all their laws. */
  async #tryAll(own: readonly Trial[], some: readonly Law[]): Promise<readonly Law[]> {
    const trials = [...own, ...ruleTrials(this.#parts, (law) => this.#broken.has(law))];
    for (const trial of trials) await this.#try(trial);
    return [...some, ...trials.flatMap((trial) => trial.laws)];
  }

  #findings(laws: readonly Law[]): Finding[] {
    const uses = this.#checker.sources.uses();
    if (uses.length > 0)
      this.#broken.set(noHiddenInputs, { law: noHiddenInputs, result: "broken", message: uses.join("; ") });
    return [...new Set([...laws, ...this.#broken.keys()])].map((law) => this.#findingOf(law));
  }

  #findingOf(law: Law): Finding {
    const broken = this.#broken.get(law);
    if (broken) return broken;
    const message = this.#skipped.get(law);
    return message === undefined ? { law, result: "holds" } : { law, result: "not-tried", message };
  }

  /** The reason why a trial cannot be run; undefined if it can. */
  #stopped(trial?: Trial): string | undefined {
    if (this.#hangsSince !== undefined) return "a call does not return";
    if (this.#first.some((law) => this.#broken.has(law))) return "an earlier law is violated";
    if (!trial?.compares || trial === determinism) return undefined;
    const repeats = !this.#broken.has(deterministic) && this.#checker.sources.uses().length === 0;
    return repeats ? undefined : "its decisions are not deterministic";
  }

  async #try(trial: Trial): Promise<void> {
    const stopped = this.#stopped(trial);
    if (stopped !== undefined) {
      for (const law of trial.laws) this.#skipped.set(law, stopped);
      return;
    }
    const { runs, seed, advance } = this.#checker;
    await advance(trial.laws[0].statement);
    // Small cases first: their counterexamples are easier to read.
    for (const small of [true, false]) {
      if (this.#hangsSince !== undefined) break;
      const found = violations(trial, this.#parts, {
        runs: Math.ceil((runs * trial.runs) / (small ? 200 : 100)),
        seed,
        small,
        known: new Set(this.#broken.keys()),
        mostShrinks: small ? mostShrinks.small : mostShrinks.large,
        around: (check) => this.#watch(check),
      });
      for (const violation of found) this.#broken.set(violation.law, findingOf(violation));
    }
  }

  #watch(check: () => void): void {
    const now = this.#checker.stopwatch();
    const hangsMs = this.#hangsSince === undefined ? undefined : now - this.#hangsSince;
    if (hangsMs !== undefined && hangsMs > shrinkingMs) return;
    const log = this.#log;
    const begin = () => {
      log.clear();
      check();
    };
    let ended = false;
    try {
      ended = withinTime(hangsMs === undefined ? caseMs : hangingMs, begin);
    } catch (error) {
      if (typeof error === "object" && error !== null) (error as FailureDetails).calls = log.created;
      throw error;
    }
    if (ended) return;
    const call = log.open === undefined ? "a case" : `${log.open}()`;
    const calls = log.created;
    log.open = undefined;
    this.#hangsSince ??= this.#checker.stopwatch();
    throw Object.assign(new LawBroken(callsReturn, `${call} did not return within ${caseMs / 1000} s`), {
      calls,
    });
  }

  /** Measures the cost; undefined, with the reason recorded, if it cannot be measured. */
  async #measure<Found>(
    law: Law,
    skip: string | undefined,
    measure: (now: Stopwatch, measureMs: number) => Found,
  ): Promise<Found | undefined> {
    const stopped = this.#stopped() ?? skip;
    if (stopped !== undefined) return void this.#skipped.set(law, stopped);
    await this.#checker.advance(law.statement);
    const { stopwatch, describe, runs } = this.#checker;
    const measureMs = Math.min(Math.max(runs, leastMeasureMs), mostMeasureMs);
    let found: Found | undefined;
    try {
      const ended = withinTime(costMs, () => {
        found = measure(stopwatch, measureMs);
      });
      require(law, ended, `the cost measurement did not end within ${costMs / 1000} s`);
      return found;
    } catch (error) {
      const message =
        error instanceof LawBroken ? error.message : `it threw during the cost measurement: ${describe(error)}`;
      return void this.#broken.set(law, { law, result: "broken", message });
    }
  }

  #judge<Found>(law: Law, found: Found | undefined, holdLaw: (found: Found) => void): void {
    if (found === undefined) return;
    try {
      holdLaw(found);
    } catch (error) {
      if (!(error instanceof LawBroken)) throw error;
      this.#broken.set(law, { law, result: "broken", message: error.message });
    }
  }
}

function findingOf({ law, trial, message, error, case: one }: Violation): Finding {
  const { calls = [], decisions } = error as FailureDetails;
  return { law, result: "broken", message, counterexample: caseText(one, decisions), calls: shownCalls(calls, trial) };
}

function shownCalls(calls: readonly (readonly Call[])[], { compares }: Trial): string[] {
  if (calls.length === 0) return [];
  const of = calls.map((some) => callLines(some, { victims: !compares }));
  return compares && of.length > 1 ? [...fromDivergence(of[0], of.at(-1)!)] : [lastCalls(of.at(-1)!)];
}
