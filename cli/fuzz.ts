import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { breathe } from "../lab/control.ts";
import { type Beaten, searchBeaten, traceOf } from "../lab/fuzz/beat.ts";
import { caching } from "../lab/fuzz/caching.ts";
import { Engines } from "../lab/fuzz/engines.ts";
import { eventLog } from "../lab/fuzz/event-log.ts";
import { fastForward } from "../lab/fuzz/fast-forward.ts";
import { indexes } from "../lab/fuzz/indexes.ts";
import { type FuzzKind, type KindName, kindNames } from "../lab/fuzz/kinds.ts";
import { readSaved, saveFinding, saveTrace } from "../lab/fuzz/saved.ts";
import type { FuzzParts } from "../lab/fuzz/setup.ts";
import { checkDifferent, type SideChoice, sideOf } from "../lab/fuzz/sides.ts";
import { simEngine } from "../lab/fuzz/sim-engine.ts";
import {
  allocatorRegistry,
  evictionRegistry,
  indexRegistry,
  presetRegistry,
  schedulerRegistry,
} from "../policies/registry.ts";
import { beatDocument, beatText } from "./fuzz/beat-report.ts";
import { fuzzDocument, fuzzText, type KindSearched } from "./fuzz/report.ts";
import { commandsFor, parseSide } from "./fuzz/sides.ts";
import { commaList, decimalNumber, path, wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface FuzzOptions {
  readonly against: readonly string[];
  readonly beat?: readonly string[];
  readonly cases?: number;
  readonly minutes?: number;
  readonly seed: number;
  readonly out?: string;
  readonly replay?: string;
  readonly json?: boolean;
}

const defaultCases = 1000;
const defaultBeatCases = 50_000;
const defaultFolder = "fuzz";
const found = 1;
const interruptedCode = 130;

const examples = `
Exit code: 0 nothing found, 1 something found, 130 interrupted. With --beat
what is found is an answer, and no fault: 0.

A counterexample is made as small as it goes and saved as a trace, with the
configuration beside it. docs/fuzz.md tells what is tried.

Examples:
  kvlab fuzz                                  all searches, 1,000 cases each
  kvlab fuzz --against indexes --cases 100000 --seed 7
  kvlab fuzz --minutes 30 --cases 1000000
  kvlab fuzz --replay fuzz/sim-engine-1a2b3c4d.json
  kvlab fuzz --beat lru fifo                  where LRU has fewer hits than FIFO
  kvlab fuzz --beat ./mine.ts lru
  kvlab fuzz --beat index=radix-tree,eviction=fifo eviction=fifo`;

export function addFuzz(program: Command): void {
  program
    .command("fuzz")
    .description("search for traces and configurations on which what must be alike differs")
    .addOption(
      new Option("--against <KINDS>", `comma list of ${kindNames.join(", ")}`)
        .argParser(parseKinds)
        .default(kindNames, "all"),
    )
    .option("--beat <A B...>", "the smallest trace on which A has fewer hits than B")
    .option("--cases <N>", "cases of each kind (default: 1,000; of --beat 50,000)", wholeNumber("--cases", 1))
    .option("--minutes <M>", "begin no case after so many minutes", minutes)
    .option("--seed <N>", "seed of the cases", wholeNumber("--seed", 0, 2 ** 31 - 1), 1)
    .option("--out <DIR>", "where counterexamples are saved (default: fuzz)", path("--out", "a folder"))
    .option("--replay <NAME>", "a counterexample again, by its name in that folder or its file")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(fuzz);
}

function parseKinds(text: string): readonly string[] {
  const kinds = commaList("--against", text);
  const unknown = kinds.find((kind) => !kindNames.includes(kind as KindName));
  if (unknown === undefined) return kinds;
  throw new InputError(`--against has "${unknown}", expected one of ${kindNames.join(", ")}`);
}

function minutes(text: string): number {
  const value = decimalNumber("--minutes")(text);
  if (value > 0) return value;
  throw new InputError(`--minutes is ${text}, expected a number above 0`);
}

const everyPart: FuzzParts = {
  indexes: indexRegistry.all,
  evictions: evictionRegistry.all,
  allocators: allocatorRegistry.all,
  schedulers: schedulerRegistry.all,
  presets: presetRegistry.all,
};

/** Cases of one kind before another one has its turn. */
const turn = 100;

async function fuzz(options: FuzzOptions, command: Command): Promise<void> {
  if (options.beat) return await beat(options.beat, options, command);
  const engines = new Engines();
  const kinds = [simEngine(engines), caching(engines), fastForward, indexes, eventLog];
  const progress = new Progress();
  const watch = new Watch(options);
  try {
    const searched = await withEngine(() =>
      options.replay === undefined
        ? searchAll(kinds, options, progress, () => watch.isOver)
        : replayed(kinds, options, options.replay),
    );
    const { seed, json } = options;
    progress.done();
    const { interrupted, wallMs } = watch;
    const fuzzed = { seed, interrupted, wallMs, kinds: searched };
    print(`${json ? JSON.stringify(fuzzDocument(fuzzed), undefined, 2) : fuzzText(fuzzed)}\n`);
    if (searched.some(({ finding }) => finding)) process.exitCode = found;
    else if (watch.interrupted) process.exitCode = interruptedCode;
  } finally {
    progress.done();
    await engines.close();
  }
}

/** The smallest trace on which one policy has fewer hits than another. */
async function beat(texts: readonly string[], options: FuzzOptions, command: Command): Promise<void> {
  const { seed, json, out = defaultFolder, cases = defaultBeatCases } = options;
  const [first, second] = texts;
  if (texts.length !== 2)
    throw new InputError(`--beat has ${counted(texts.length, "name")}, expected two: --beat lru fifo`);
  for (const name of ["against", "replay"])
    if (command.getOptionValueSource(name) === "cli") throw new InputError(`--beat and --${name} exclude each other`);
  const choices = [parseSide(first), parseSide(second)] as const;
  checkDifferent(...choices);
  const sides = [await sideOf(choices[0], seed), await sideOf(choices[1], seed)] as const;
  const progress = new Progress();
  const watch = new Watch(options);
  try {
    progress.start("searching", cases);
    let untold = 0;
    const advance = async () => {
      if (++untold % turn > 0) return;
      progress.advance(turn);
      await breathe();
    };
    const stopped = () => watch.isOver;
    const searched = await withEngine(() => searchBeaten(sides, { cases, seed, stopped, advance }));
    progress.done();
    const labels = [first, second] as const;
    const saved = searched.finding && (await saveBeaten(out, choices, searched.finding, seed));
    const run = { ...searched, labels, seed, saved, interrupted: watch.interrupted, wallMs: watch.wallMs };
    print(`${json ? JSON.stringify(beatDocument(run), undefined, 2) : beatText(run)}\n`);
    if (watch.interrupted) process.exitCode = interruptedCode;
  } finally {
    progress.done();
  }
}

async function saveBeaten(folder: string, sides: readonly [SideChoice, SideChoice], found: Beaten, seed: number) {
  const name = `beat-${sides.map(({ label }) => label).join("-")}`.replace(/[^A-Za-z0-9.+_=-]+/g, "_");
  const traceFile = await saveTrace(folder, name, traceOf(found.prompts));
  return { traceFile, commands: commandsFor(sides, traceFile, found.blocks, seed) };
}

/** When a search is to begin no more. */
class Watch {
  readonly #startMs = performance.now();
  readonly #mostMs: number;

  constructor({ minutes = Number.POSITIVE_INFINITY }: Pick<FuzzOptions, "minutes">) {
    this.#mostMs = 60_000 * minutes;
  }

  get interrupted(): boolean {
    return interruption.aborted;
  }

  get wallMs(): number {
    return performance.now() - this.#startMs;
  }

  get isOver(): boolean {
    return this.interrupted || this.wallMs >= this.#mostMs;
  }
}

/** Each kind in turns, until one has found something or all its cases were tried. */
async function searchAll(
  all: readonly FuzzKind[],
  { against, cases = defaultCases, seed, out = defaultFolder }: FuzzOptions,
  progress: Progress,
  stopped: () => boolean,
): Promise<KindSearched[]> {
  // Loaded only now, for it takes time and no other command needs it.
  const { addTo, search } = await import("../lab/fuzz/search.ts");
  const kinds = all.filter(({ name }) => against.includes(name));
  const searched = kinds.map(
    (kind): KindSearched => ({ kind, cases: 0, refused: 0, decisions: {}, finding: undefined, saved: undefined }),
  );
  progress.start("searching", cases * kinds.length);
  const advance = async () => {
    progress.advance(1);
    await breathe();
  };
  for (let from = 0; from < cases && !stopped(); from += turn)
    for (const sum of searched) {
      if (sum.finding) continue;
      const turns = { cases: Math.min(turn, cases - from), seed: seedOf(seed, from / turn) };
      const { finding, ...more } = await search(sum.kind, everyPart, { ...turns, stopped, advance });
      sum.cases += more.cases;
      sum.refused += more.refused;
      addTo(sum.decisions, more.decisions);
      sum.finding = finding;
      if (finding) sum.saved = await saveFinding(out, finding, seed);
    }
  return searched;
}

/** Of each turn another one, that of the first turn as given. */
const seedOf = (seed: number, turnNumber: number): number => (seed + Math.imul(turnNumber, 0x9e3779b1)) | 0;

/** A case that was saved, once more. */
async function replayed(
  all: readonly FuzzKind[],
  { out = defaultFolder }: FuzzOptions,
  name: string,
): Promise<KindSearched[]> {
  const { tried } = await import("../lab/fuzz/search.ts");
  const { against, saved, ...one } = await readSaved(out, name);
  const kind = all.find((some) => some.name === against);
  if (kind === undefined)
    throw new InputError(`${saved.file}: is against "${against}", expected one of ${kindNames.join(", ")}`);
  const checked = await tried(kind, one, everyPart);
  if (checked === undefined) throw new InputError(`${saved.file}: there is no such configuration any more`);
  const { trouble, decisions } = checked;
  const finding = trouble && { ...one, ...trouble, kind };
  return [{ kind, cases: 1, refused: 0, decisions, finding, saved }];
}
