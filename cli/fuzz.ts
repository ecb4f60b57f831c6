import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import type { BackendName } from "../engine/backends.ts";
import { beat, fuzz } from "../lab/fuzz/fuzz.ts";
import { type KindName, kindNames } from "../lab/fuzz/kinds.ts";
import { beatText } from "./fuzz/beat-report.ts";
import { fuzzText } from "./fuzz/report.ts";
import { parseSide } from "./fuzz/sides.ts";
import { commaList, decimalNumber, engineTargetOption, path, wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface FuzzOptions {
  readonly target: BackendName;
  readonly against: readonly KindName[];
  readonly beat?: readonly string[];
  readonly cases?: number;
  readonly minutes?: number;
  readonly seed: number;
  readonly out?: string;
  readonly replay?: string;
  readonly json?: boolean;
}

const foundCode = 1;
const interruptedCode = 130;

const examples = `
Exit code: 0 no counterexample, 1 a counterexample, 130 interrupted. With --beat
the trace that is found is the result, not a fault: 0.

Counterexamples are shrunk and saved as a trace and its configuration.
docs/fuzz.md describes the searches.

Examples:
  kvlab fuzz                                  all searches, 1,000 cases each
  kvlab fuzz --against indexes --cases 100000 --seed 7
  kvlab fuzz --minutes 30 --cases 1000000
  kvlab fuzz --replay fuzz/sim-engine-1a2b3c4d.json
  kvlab fuzz --beat lru fifo                  traces with fewer hits for LRU
  kvlab fuzz --beat ./mine.ts lru
  kvlab fuzz --beat index=radix-tree,eviction=fifo eviction=fifo`;

export function addFuzz(program: Command): void {
  program
    .command("fuzz")
    .description("search random traces and configurations for runs that must be equivalent and are not")
    .addOption(
      new Option("--against <KINDS>", `searches, comma-separated: ${kindNames.join(", ")}`)
        .argParser(parseKinds)
        .default(kindNames, "all"),
    )
    .addOption(engineTargetOption("fuzz compares an engine with the simulator and with itself"))
    .option("--beat <A B...>", "find the smallest trace on which A has fewer hits than B")
    .option("--cases <N>", "cases of each search (default: 1,000; with --beat 50,000)", wholeNumber("--cases", 1))
    .option("--minutes <M>", "start no case after M minutes", minutes)
    .option("--seed <N>", "random seed of the cases", wholeNumber("--seed", 0, 2 ** 31 - 1), 1)
    .option("--out <DIR>", "folder for counterexamples (default: fuzz)", path("--out", "a folder"))
    .option("--replay <NAME>", "rerun a counterexample, by its name in that folder or its file")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(fuzzOrBeat);
}

function parseKinds(text: string): readonly KindName[] {
  const kinds = commaList("--against", text);
  const unknown = kinds.find((kind) => !kindNames.includes(kind as KindName));
  if (unknown === undefined) return kinds as readonly KindName[];
  throw new InputError(`--against has "${unknown}", expected one of ${kindNames.join(", ")}`);
}

function minutes(text: string): number {
  const value = decimalNumber("--minutes")(text);
  if (value > 0) return value;
  throw new InputError(`--minutes is ${text}, expected a number above 0`);
}

async function fuzzOrBeat({ beat: texts, target: backend, ...options }: FuzzOptions, command: Command): Promise<void> {
  const progress = new Progress();
  const control = { progress: progress.follow, signal: interruption };
  try {
    if (texts !== undefined) {
      for (const name of ["against", "replay", "target"])
        if (command.getOptionValueSource(name) === "cli")
          throw new InputError(`--beat and --${name} exclude each other`);
      const { report, run } = await withEngine(() => beat(parseSides(texts), { ...options, ...control }));
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : beatText(run)}\n`);
      if (run.interrupted) process.exitCode = interruptedCode;
    } else {
      const { report, fuzzed } = await withEngine(() => fuzz({ ...options, ...control, backend }));
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : fuzzText(fuzzed)}\n`);
      if (report.found > 0) process.exitCode = foundCode;
      else if (fuzzed.interrupted) process.exitCode = interruptedCode;
    }
  } finally {
    progress.done();
  }
}

function parseSides(texts: readonly string[]) {
  if (texts.length !== 2)
    throw new InputError(`--beat has ${counted(texts.length, "name")}, expected two: --beat lru fifo`);
  return [parseSide(texts[0]), parseSide(texts[1])] as const;
}
