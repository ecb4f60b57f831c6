import type { EvictionPlugin, IndexPlugin } from "../core/plugins/index.ts";
import {
  addRemoveAlternate,
  alwaysVictim,
  callsReturn,
  conservation,
  noTrace,
  ownContent,
  victimIsEvictable,
  victimIsPure,
} from "./book.ts";
import { type Call, CallLog, callLines, lastCalls, tracedIndex, tracedPolicy, whereTheyPart } from "./calls.ts";
import { cheap, type Growth, measureGrowth, requireCheap, type Stopwatch, tooDear } from "./cost.ts";
import { determinism, deterministic } from "./determinism.ts";
import { everyRule, ruleTrials } from "./every-rule.ts";
import { cheapIndex, measureIndex, requireCheapIndex, type ShapeGrowth } from "./index-cost.ts";
import { type Law, LawBroken, require } from "./law.ts";
import type { Parts } from "./parts.ts";
import { pure, type Sources } from "./purity.ts";
import { story } from "./story.ts";
import { withinTime } from "./time-limit.ts";
import { type Trial, type Violation, violations } from "./trial.ts";
import { evictionTrials, indexTrials } from "./trials.ts";

/** What was found of one law. */
export interface Finding {
  readonly law: Law;
  readonly result: "holds" | "broken" | "not-tried";
  /** What is wrong, or why it was not tried. */
  readonly message?: string;
  /** Cache and requests of the smallest case in which it is broken, and what was decided. */
  readonly story?: string;
  /** The calls that the plug-in got there; of caches that must decide alike, from where they part. */
  readonly calls?: readonly string[];
}

export interface Examination {
  readonly findings: readonly Finding[];
  /** What operations of an eviction policy cost; undefined if that was not measured. */
  readonly growth: Growth | undefined;
  /** What a block costs in an index, for prompts of each shape; undefined likewise. */
  readonly indexGrowth: readonly ShapeGrowth[] | undefined;
}

export interface Examiner {
  /** Cases of the main trial; the others have their share. */
  readonly runs: number;
  readonly seed: number;
  readonly sources: Sources;
  readonly stopwatch: Stopwatch;
  /** What somebody's code threw, in a line. */
  describe(error: unknown): string;
  /** Told of what is being tried. */
  advance(what: string): Promise<void>;
}

/** How long one case may take, and all of the measuring. */
const caseMs = 2_000;
const costMs = 60_000;

/** For each number of entries; more where more cases are asked for. */
const leastMeasureMs = 30;
const mostMeasureMs = 250;

/** A broken case is made smaller in at most so many attempts; one that does not end, for so long. */
const mostShrinks = { small: 1000, large: 200 } as const;
const hangingMs = 200;
const shrinkingMs = 500;

/** If one of these is broken, what else happens says little. */
const firstOfPolicy: readonly Law[] = [callsReturn, victimIsEvictable, alwaysVictim];
const firstOfIndex: readonly Law[] = [callsReturn, addRemoveAlternate, conservation, ownContent];

/** Tries every law on an eviction policy. */
export function examinePolicy(plugin: EvictionPlugin, parts: Parts, examiner: Examiner): Promise<Examination> {
  const log = logFor(examiner);
  const own = { ...parts, evictions: [tracedPolicy(plugin, log)] };
  const laws = [...firstOfPolicy, victimIsPure, conservation, ownContent, noTrace];
  const share = plugin.unlimited ? 0.2 : 1;
  return new Examining(own, log, { ...examiner, runs: examiner.runs * share }).policy(plugin, laws);
}

/** Tries every law on an index. */
export function examineIndex(plugin: IndexPlugin, parts: Parts, examiner: Examiner): Promise<Examination> {
  const log = logFor(examiner);
  const own = { ...parts, indexes: [tracedIndex(plugin, log)] };
  return new Examining(own, log, examiner).index(plugin, [...firstOfIndex, noTrace]);
}

function logFor({ describe, sources }: Examiner): CallLog {
  const log = new CallLog(describe, () => sources.jump());
  sources.reader = () => (log.open === undefined ? undefined : `in ${log.open}()`);
  return log;
}

/** A broken law's error, with the calls that led to it. */
interface Told {
  calls?: readonly (readonly Call[])[];
  decisions?: readonly string[];
}

class Examining {
  readonly #parts: Parts;
  readonly #log: CallLog;
  readonly #examiner: Examiner;
  readonly #broken = new Map<Law, Finding>();
  readonly #skipped = new Map<Law, string>();
  #first: readonly Law[] = [];
  /** When the first call was found that does not return. */
  #hangsSince: number | undefined;

  constructor(parts: Parts, log: CallLog, examiner: Examiner) {
    this.#parts = parts;
    this.#log = log;
    this.#examiner = examiner;
  }

  async policy(plugin: EvictionPlugin, some: readonly Law[]): Promise<Examination> {
    this.#first = firstOfPolicy;
    const laws = await this.#tryAll(evictionTrials, some);
    const isBound = plugin.unlimited || this.#log.readsFuture;
    const growth = await this.#measure(cheap, isBound ? "a bound is not measured" : undefined, (now, ms) => {
      const once = measureGrowth(plugin, now, ms);
      // On a busy machine a figure may be far off, but not twice in the same way.
      const again = tooDear(once) ? measureGrowth(plugin, now, ms) : once;
      return again.exponent < once.exponent ? again : once;
    });
    this.#judge(cheap, growth, requireCheap);
    // Found by the way and about the other side of the contract: of interest only if it is broken.
    const findings = this.#findings([...laws, pure, everyRule, cheap]);
    return {
      findings: findings.filter(({ law, result }) => law !== addRemoveAlternate || result === "broken"),
      growth,
      indexGrowth: undefined,
    };
  }

  async index(plugin: IndexPlugin, some: readonly Law[]): Promise<Examination> {
    this.#first = firstOfIndex;
    const laws = await this.#tryAll(indexTrials, some);
    const skip = plugin.none ? "it stores nothing" : undefined;
    const indexGrowth = await this.#measure(cheapIndex, skip, (now, ms) => measureIndex(plugin, this.#parts, now, ms));
    this.#judge(cheapIndex, indexGrowth, requireCheapIndex);
    return { findings: this.#findings([...laws, pure, everyRule, cheapIndex]), growth: undefined, indexGrowth };
  }

  /** All laws that were to be tried. */
  async #tryAll(own: readonly Trial[], some: readonly Law[]): Promise<readonly Law[]> {
    const trials = [...own, ...ruleTrials(this.#parts, (law) => this.#broken.has(law))];
    for (const trial of trials) await this.#try(trial);
    return [...some, ...trials.flatMap((trial) => trial.laws)];
  }

  #findings(laws: readonly Law[]): Finding[] {
    const uses = this.#examiner.sources.uses();
    if (uses.length > 0) this.#broken.set(pure, { law: pure, result: "broken", message: uses.join("; ") });
    return [...new Set([...laws, ...this.#broken.keys()])].map((law) => this.#findingOf(law));
  }

  #findingOf(law: Law): Finding {
    const broken = this.#broken.get(law);
    if (broken) return broken;
    const message = this.#skipped.get(law);
    return message === undefined ? { law, result: "holds" } : { law, result: "not-tried", message };
  }

  /** Why a trial would say nothing; undefined if it does. */
  #stopped(trial?: Trial): string | undefined {
    if (this.#hangsSince !== undefined) return "a call does not return";
    if (this.#first.some((law) => this.#broken.has(law))) return "a law above is broken";
    if (!trial?.compares || trial === determinism) return undefined;
    const repeats = !this.#broken.has(deterministic) && this.#examiner.sources.uses().length === 0;
    return repeats ? undefined : "it may decide otherwise each time";
  }

  async #try(trial: Trial): Promise<void> {
    const stopped = this.#stopped(trial);
    if (stopped !== undefined) {
      for (const law of trial.laws) this.#skipped.set(law, stopped);
      return;
    }
    const { runs, seed, advance } = this.#examiner;
    await advance(trial.laws[0].says);
    // A fault that is easy to see is found in a small case, which is then easy to read.
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
    const now = this.#examiner.stopwatch();
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
      if (typeof error === "object" && error !== null) (error as Told).calls = log.created;
      throw error;
    }
    if (ended) return;
    const call = log.open === undefined ? "a case" : `${log.open}()`;
    const calls = log.created;
    log.open = undefined;
    this.#hangsSince ??= this.#examiner.stopwatch();
    throw Object.assign(new LawBroken(callsReturn, `${call} does not return: it still ran after ${caseMs / 1000} s`), {
      calls,
    });
  }

  /** What it costs; undefined, and why is noted, if that cannot be measured. */
  async #measure<Found>(
    law: Law,
    skip: string | undefined,
    measure: (now: Stopwatch, measureMs: number) => Found,
  ): Promise<Found | undefined> {
    const stopped = this.#stopped() ?? skip;
    if (stopped !== undefined) return void this.#skipped.set(law, stopped);
    await this.#examiner.advance(law.says);
    const { stopwatch, describe, runs } = this.#examiner;
    const measureMs = Math.min(Math.max(runs, leastMeasureMs), mostMeasureMs);
    let found: Found | undefined;
    try {
      const ended = withinTime(costMs, () => {
        found = measure(stopwatch, measureMs);
      });
      require(law, ended, `while its cost is measured it does not come to an end in ${costMs / 1000} s`);
      return found;
    } catch (error) {
      const message =
        error instanceof LawBroken ? error.message : `while its cost was measured, it threw: ${describe(error)}`;
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
  const { calls = [], decisions } = error as Told;
  return { law, result: "broken", message, story: story(one, decisions), calls: shownCalls(calls, trial) };
}

function shownCalls(calls: readonly (readonly Call[])[], { compares }: Trial): string[] {
  if (calls.length === 0) return [];
  const of = calls.map((some) => callLines(some, { victims: !compares }));
  return compares && of.length > 1 ? [...whereTheyPart(of[0], of.at(-1)!)] : [lastCalls(of.at(-1)!)];
}
