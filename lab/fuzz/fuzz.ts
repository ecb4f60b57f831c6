import { InputError } from "../../core/errors.ts";
import { type BackendName, backendNamed, defaultBackend } from "../../engine/backends.ts";
import { stopwatch } from "../../engine/clock.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  schedulerRegistry,
} from "../../policies/registry.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { type BeatFinding, searchBeaten, traceOf } from "./beat.ts";
import { type BeatDocument, type BeatRun, beatDocument } from "./beat-report.ts";
import { caching } from "./caching.ts";
import { Engines } from "./engines.ts";
import { eventLog } from "./event-log.ts";
import { fastForward } from "./fast-forward.ts";
import { type FuzzDocument, type Fuzzed, fuzzDocument, type KindSearched } from "./fuzz-report.ts";
import { indexes } from "./indexes.ts";
import { type FuzzKind, type KindName, kindNames } from "./kinds.ts";
import { readSaved, saveFinding, saveTrace } from "./saved.ts";
import type { FuzzParts } from "./setup.ts";
import { checkDifferent, commandsFor, type SideChoice, sideOf } from "./sides.ts";
import { simEngine } from "./sim-engine.ts";

/** Limits of a search, and the folder of counterexamples. */
export interface BeatOptions extends Control {
  /** Number of cases to try; for `fuzz`, of each search. */
  readonly cases?: number;
  /** No case starts after this many minutes. */
  readonly minutes?: number;
  /** Random seed of the cases. */
  readonly seed?: number;
  /** The folder of counterexamples. */
  readonly out?: string;
}

/** The searches that `fuzz` runs, or a saved case. */
export interface FuzzOptions extends BeatOptions {
  /** The searches to run; by default all. */
  readonly against?: readonly KindName[];
  /** The engine backend; by default the one on the CPU. */
  readonly backend?: BackendName;
  /** Reruns a saved counterexample instead: its name in the folder, or its file. */
  readonly replay?: string;
}

/** The result of `fuzz`. */
export interface FuzzSearch {
  /** The document that `kvlab fuzz --json` prints: schema fuzz/1. */
  readonly report: FuzzDocument;
  readonly fuzzed: Fuzzed;
}

/** The result of `beat`. */
export interface BeatSearch {
  /** The document that `kvlab fuzz --beat --json` prints: schema fuzz/1. */
  readonly report: BeatDocument;
  readonly run: BeatRun;
}

const defaultCases = 1000;
const defaultBeatCases = 50_000;
const defaultFolder = "fuzz";

const everyPart: FuzzParts = {
  indexes: indexRegistry.all,
  evictions: evictionRegistry.all,
  allocators: allocatorRegistry.all,
  schedulers: schedulerRegistry.all,
  presets: presetRegistry.all,
};

/** Cases of one search before the next search continues. */
const casesPerTurn = 100;

/**
 * Searches for cases in which runs that must be equivalent differ, shrinks them and saves them. If the signal is aborted, the
 * report covers the cases until then.
 *
 * @throws InputError, ExecutorError
 */
export async function fuzz(options: FuzzOptions = {}): Promise<FuzzSearch> {
  const { backend = defaultBackend.name } = options;
  const engines = new Engines(undefined, backendNamed(backend));
  const deadline = new Deadline(options);
  try {
    const kinds = [simEngine(engines), caching(engines), fastForward, indexes, eventLog];
    const searched = await (options.replay === undefined
      ? searchAll(kinds, options, () => deadline.isOver)
      : replayed(kinds, options, options.replay));
    const { interrupted, wallMs } = deadline;
    const fuzzed = { backend, seed: options.seed ?? 1, interrupted, wallMs, kinds: searched };
    return { report: fuzzDocument(fuzzed), fuzzed };
  } finally {
    await engines.close();
  }
}

/**
 * Searches for the smallest trace on which the first side has fewer hits than the second. If the signal is aborted, the report
 * covers the cases until then.
 *
 * @throws InputError
 */
export async function beat(sides: readonly [SideChoice, SideChoice], options: BeatOptions = {}): Promise<BeatSearch> {
  const { seed = 1, out = defaultFolder, cases = defaultBeatCases } = options;
  checkDifferent(...sides);
  const configured = [await sideOf(sides[0], seed), await sideOf(sides[1], seed)] as const;
  const deadline = new Deadline(options);
  const advanceBy = counting(options, "searching", cases);
  let pending = 0;
  const advance = async () => {
    if (++pending % casesPerTurn > 0) return;
    advanceBy(casesPerTurn);
    await yieldToEvents();
  };
  const searched = await searchBeaten(configured, { cases, seed, stopped: () => deadline.isOver, advance });
  const labels = [sides[0].label, sides[1].label] as const;
  const saved = searched.finding && (await saveBeaten(out, sides, searched.finding, seed));
  const run = { ...searched, labels, seed, saved, interrupted: deadline.interrupted, wallMs: deadline.wallMs };
  return { report: beatDocument(run), run };
}

async function saveBeaten(folder: string, sides: readonly [SideChoice, SideChoice], found: BeatFinding, seed: number) {
  const name = `beat-${sides.map(({ label }) => label).join("-")}`.replace(/[^A-Za-z0-9.+_=-]+/g, "_");
  const traceFile = await saveTrace(folder, name, traceOf(found.prompts));
  return { traceFile, commands: commandsFor(sides, traceFile, found.blocks, seed) };
}

/** The end of a search: after a time, or if the signal is aborted. */
class Deadline {
  readonly #elapsedMs = stopwatch();
  readonly #mostMs: number;

  readonly #signal: AbortSignal | undefined;

  constructor({ minutes = Number.POSITIVE_INFINITY, signal }: BeatOptions) {
    this.#signal = signal;
    this.#mostMs = 60_000 * minutes;
  }

  get interrupted(): boolean {
    return this.#signal?.aborted === true;
  }

  get wallMs(): number {
    return this.#elapsedMs();
  }

  get isOver(): boolean {
    return this.interrupted || this.wallMs >= this.#mostMs;
  }
}

/** The searches take turns, each until it has a finding or has tried all its cases. */
async function searchAll(
  all: readonly FuzzKind[],
  options: FuzzOptions,
  stopped: () => boolean,
): Promise<KindSearched[]> {
  const { against = kindNames, cases = defaultCases, seed = 1, out = defaultFolder } = options;
  // Loaded on demand, because loading takes time and no other command needs it.
  const { addTo, search } = await import("./search.ts");
  const kinds = all.filter(({ name }) => against.includes(name));
  const searched = kinds.map(
    (kind): KindSearched => ({ kind, cases: 0, refused: 0, decisions: {}, finding: undefined, saved: undefined }),
  );
  const advanceBy = counting(options, "searching", cases * kinds.length);
  const advance = async () => {
    advanceBy(1);
    await yieldToEvents();
  };
  for (let from = 0; from < cases && !stopped(); from += casesPerTurn)
    for (const sum of searched) {
      if (sum.finding) continue;
      const turns = { cases: Math.min(casesPerTurn, cases - from), seed: seedOf(seed, from / casesPerTurn) };
      const { finding, ...more } = await search(sum.kind, everyPart, { ...turns, stopped, advance });
      sum.cases += more.cases;
      sum.refused += more.refused;
      addTo(sum.decisions, more.decisions);
      sum.finding = finding;
      if (finding) sum.saved = await saveFinding(out, finding, seed);
    }
  return searched;
}

/** Each turn has its own seed, which is the given seed for the first turn. */
const seedOf = (seed: number, turnNumber: number): number => (seed + Math.imul(turnNumber, 0x9e3779b1)) | 0;

/** Reruns a saved case. */
async function replayed(
  all: readonly FuzzKind[],
  { out = defaultFolder }: FuzzOptions,
  name: string,
): Promise<KindSearched[]> {
  const { checkCase } = await import("./search.ts");
  const { against, saved, ...one } = await readSaved(out, name);
  const kind = all.find((some) => some.name === against);
  if (kind === undefined)
    throw new InputError(`${saved.file}: "against" is "${against}", expected one of ${kindNames.join(", ")}`);
  const checked = await checkCase(kind, one, everyPart);
  if (checked === undefined) throw new InputError(`${saved.file}: this version does not support the configuration`);
  const { failure, decisions } = checked;
  const finding = failure && { ...one, ...failure, kind };
  return [{ kind, cases: 1, refused: 0, decisions, finding, saved }];
}
