import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { backendNames, defaultBackend } from "../engine/backends.ts";
import type { PartLists } from "../lab/compare/combinations.ts";
import { compareReplays } from "../lab/compare/compare.ts";
import { compareServed, type ServedComparisonOptions } from "../lab/compare/compare-served.ts";
import { defaultShares } from "../lab/compare/comparison.ts";
import { firstDifference } from "../lab/compare/first-difference.ts";
import { Interrupted } from "../lab/control.ts";
import type { TraceReading } from "../lab/input.ts";
import { type Metric, metrics } from "../lab/output/hit-ratios.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { checkTarget } from "../lab/run/check-target.ts";
import { defaultParts } from "../lab/run/configuration.ts";
import type { SimulationLists, SimulationOptions } from "../lab/run/simulation-options.ts";
import type { Target } from "../lab/run/target.ts";
import { comparisonTable } from "./compare/comparison-table.ts";
import { differenceTable } from "./compare/difference-table.ts";
import { servedTable } from "./compare/served-table.ts";
import {
  addBlockSize,
  addRenamedOptions,
  addRunOptions,
  addTraceOptions,
  commaList,
  parseCapacity,
  parseMetric,
  parsePresets,
  parseRuleLists,
  path,
  rule,
  seedsOption,
} from "./input/options.ts";
import { addSimulationLists } from "./input/simulation-options.ts";
import { interruption, withEngine } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";

interface CompareOptions
  extends TraceReading,
    PartLists,
    Omit<SimulationOptions, keyof SimulationLists>,
    SimulationLists {
  readonly target: Target;
  readonly rule?: readonly string[];
  readonly blocks: readonly Capacity[];
  readonly metric?: Metric;
  readonly blockSize?: number;
  readonly warmup: number;
  readonly seed: readonly number[];
  readonly audit?: boolean;
  readonly events?: boolean;
  readonly out?: string;
  readonly firstDifference?: boolean;
  readonly json?: boolean;
}

const examples = `
Examples:
  kvlab compare                                 the built-in example
  kvlab compare trace.jsonl.gz --eviction lru,fifo,./mine.ts
  kvlab compare trace.jsonl --preset all
  kvlab compare trace.jsonl --preset vllm,sglang --eviction lru,lfu
  kvlab compare trace.jsonl --blocks 1000,10%,50% --metric token
  kvlab compare trace.jsonl --rule free-order=reverse,forward --seed 1,2,3
  kvlab compare trace.jsonl --eviction lru,./mine.ts --first-difference
  kvlab compare trace.jsonl --target sim --preset vllm,sglang --rate 2,4,8
  kvlab compare trace.jsonl --target ${defaultBackend.name} --model ./llama --preset vllm,sglang

The offline optimum and the unlimited cache are always shown. A proven bound,
which no eviction policy exceeds, is shown if the list has another policy. "gap
closed" is the share of the gap between lru and that bound that a policy closes,
with the same other options; lru is run for it if it is not in the list.

Where presets have different block sizes, all get the same capacity in tokens:
--blocks counts blocks of --block-size tokens (default: the trace's unit or 16).

Combinations that differ only in the order of ties (--rule free-order) or in the
seed are shown as one row, with the lowest and the highest hit ratio; --json has
each run. With --target sim, this holds for seeds, and for all metrics.

With --first-difference, the decisions of each combination are compared with
those of the first one (default eviction: lru; no bounds). Exit code: 0 if all
decisions are identical, 1 if not.

With --target sim or ${backendNames.join(" or ")} the table has one row per combination:
hit ratio, latency and throughput. It has no bounds: these hold only if requests
do not overlap. The default of --blocks is then the memory of the GPU, or 10 %
of the distinct blocks for an engine.`;

export function addCompare(program: Command): void {
  const command = program
    .command("compare")
    .description("run every combination of comma-separated options over a trace and show one table")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .addOption(listOption("--preset <NAMES>", "presets of real systems (all: every preset)", "none"))
    .addOption(
      listOption("--index <NAMES>", "prefix indexes, or plug-in files", `${defaultParts.index}, or the preset's`),
    )
    .addOption(
      listOption(
        "--eviction <NAMES>",
        "eviction policies, or plug-in files",
        "online policies that differ from lru, or the preset's",
      ),
    )
    .addOption(
      listOption("--allocator <NAMES>", "allocators, or plug-in files", `${defaultParts.allocator}, or the preset's`),
    )
    .addOption(
      listOption("--scheduler <NAMES>", "schedulers, or plug-in files", `${defaultParts.scheduler}, or the preset's`),
    )
    .option("--rule <NAME=VALUES>", "values of a reuse rule (repeatable)", rule)
    .addOption(
      new Option("--blocks <SIZES>", "capacities in blocks, or percentages of the distinct blocks")
        .argParser(parseCapacities)
        .default(defaultShares, "1%,5%,10%,25%,50%"),
    );
  addTraceOptions(addBlockSize(command));
  addSimulationLists(addRunOptions(command, seedsOption("policies")))
    .addOption(
      new Option(
        "--metric <NAME>",
        `hit ratio to show: ${metrics.join(", ")} (default: block; token where block sizes differ)`,
      ).argParser(parseMetric),
    )
    .option("--out <DIR>", "save each run in its own folder below DIR", path("--out", "a folder"))
    .option("--events", "with --out: save the event log of each run")
    .option("--first-difference", "show the first divergence from the first combination")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(compare);
  addRenamedOptions(command);
}

/** An option with a comma-separated list of names. */
function listOption(flags: string, description: string, initial: string): Option {
  const [name] = flags.split(" ");
  return new Option(flags, `${description} (default: ${initial})`).argParser((text: string) =>
    name === "--preset" ? parsePresets(text) : commaList(name, text),
  );
}

const parseCapacities = (text: string): Capacity[] => commaList("--blocks", text).map(parseCapacity);

async function compare(files: readonly string[], given: CompareOptions, command: Command): Promise<void> {
  const options = { ...given, rules: parseRuleLists(given.rule ?? []) };
  if (options.events && options.out === undefined)
    throw new InputError("--events needs --out: the log is part of a saved run");
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, note: progress.note, signal: interruption };
    if (options.target !== "cache") await served(files, { ...withoutDefaultBlocks(options, command), ...control });
    else if (options.firstDifference) {
      checkTarget(firstRunOf(options), []);
      refuseUnlimited(options);
      checkNoMetricOptions(command);
      const { report, input } = await firstDifference(files, { ...options, seed: onlySeed(options), ...control });
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : differenceTable(input, report)}\n`);
      if (!report.identical) process.exitCode = different;
    } else {
      checkTarget(firstRunOf(options), ["model"]);
      refuseUnlimited(options);
      const { report, comparison } = await compareReplays(files, { ...options, ...control });
      progress.done();
      show(options, report, () => comparisonTable(comparison));
    }
  } finally {
    progress.done();
  }
}

/** Exit code of `--first-difference` if decisions differ. */
const different = 1;

function show({ json, out }: Pick<CompareOptions, "json" | "out">, report: unknown, table: () => string): void {
  print(`${json ? JSON.stringify(report, undefined, 2) : table()}\n`);
  if (out !== undefined && !json) print(`\nSaved in ${out}, one folder for each run.\n`);
}

async function served(files: readonly string[], options: ServedOptions): Promise<void> {
  checkTarget(firstRunOf(options));
  if (options.firstDifference) throw new InputError("--first-difference needs --target cache");
  if (options.metric !== undefined)
    throw new InputError(
      `--metric needs --target cache: with --target ${options.target} the table shows several metrics`,
    );
  const { report, input, rows } = await withEngine(() => compareServed(files, options));
  show(options, report, () => servedTable(input, rows));
  const { out } = options;
  if (report.interrupted)
    throw new Interrupted(
      ` after ${rows.length} of ${counted(report.interrupted.of, "run")}; ${out === undefined ? "not saved" : `they are saved in ${out}`}`,
    );
}

type ServedOptions = Omit<CompareOptions, "blocks"> & ServedComparisonOptions;

/** Removes the default of --blocks: the default of a timed run is the memory of its device. */
function withoutDefaultBlocks(options: CompareOptions, command: Command) {
  if (command.getOptionValueSource("blocks") === "cli") return options;
  const { blocks: _, ...others } = options;
  return others;
}

/** The options of one run: the first value of each list. */
function firstRunOf({ replicas, router, rate, ...single }: Omit<ServedOptions, "seed">) {
  return {
    ...single,
    ...(replicas && { replicas: replicas[0] }),
    ...(router && { router: router[0] }),
    ...(rate && { rate: rate[0] }),
  };
}

/** @throws InputError if there are several seeds, which make a band of hit ratios */
function onlySeed({ seed }: Pick<CompareOptions, "seed">): number {
  if (seed.length === 1) return seed[0];
  throw new InputError(`--seed has ${seed.length} values, expected one with --first-difference`);
}

function refuseUnlimited({ blocks }: CompareOptions): void {
  if (blocks.includes("unlimited"))
    throw new InputError("--blocks contains unlimited, which compare always shows; remove it");
}

/** @throws InputError if an option about metrics is given, because --first-difference shows none */
function checkNoMetricOptions(command: Command): void {
  for (const name of ["out", "metric", "warmup"])
    if (command.getOptionValueSource(name) === "cli")
      throw new InputError(`--first-difference and --${name} exclude each other: no metrics are shown or saved`);
}
