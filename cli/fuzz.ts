import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { beat, fuzz } from "../lab/fuzz/fuzz.ts";
import { type KindName, kindNames } from "../lab/fuzz/kinds.ts";
import { beatText } from "./fuzz/beat-report.ts";
import { fuzzText } from "./fuzz/report.ts";
import { parseSide } from "./fuzz/sides.ts";
import { commaList, decimalNumber, path, wholeNumber } from "./input/options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface FuzzOptions {
  readonly against: readonly KindName[];
  readonly beat?: readonly string[];
  readonly cases?: number;
  readonly minutes?: number;
  readonly seed: number;
  readonly out?: string;
  readonly replay?: string;
  readonly json?: boolean;
}

const found = 1;
const interruptedCode = 130;

const examples = `
Exit code: 0 nothing found, 1 something found, 130 interrupted. With --beat
what is found is an answer, and no fault: 0.

A counterexample is made as small as it goes and saved as a trace, with the
configuration beside it. docs/fuzz.md lists the searches.

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

async function fuzzOrBeat({ beat: texts, ...options }: FuzzOptions, command: Command): Promise<void> {
  const progress = new Progress();
  const control = { progress: progress.follow, signal: interruption };
  try {
    if (texts !== undefined) {
      for (const name of ["against", "replay"])
        if (command.getOptionValueSource(name) === "cli")
          throw new InputError(`--beat and --${name} exclude each other`);
      const { report, run } = await withEngine(() => beat(parseSides(texts), { ...options, ...control }));
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : beatText(run)}\n`);
      if (run.interrupted) process.exitCode = interruptedCode;
    } else {
      const { report, fuzzed } = await withEngine(() => fuzz({ ...options, ...control }));
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : fuzzText(fuzzed)}\n`);
      if (report.found > 0) process.exitCode = found;
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
