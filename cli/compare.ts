import { type Command, Option } from "commander";
import { counted } from "../core/counted.ts";
import { InputError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import { backendNames, defaultBackend } from "../engine/backends.ts";
import type { PartLists, RuleLists } from "../lab/compare/combinations.ts";
import { compareReplays } from "../lab/compare/compare.ts";
import { compareServed, type ServedComparisonOptions } from "../lab/compare/compare-served.ts";
import { defaultShares, type Metric, metrics } from "../lab/compare/comparison.ts";
import { firstDifference } from "../lab/compare/first-difference.ts";
import { Interrupted } from "../lab/control.ts";
import type { TraceReading } from "../lab/input.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { checkTarget } from "../lab/run/check-target.ts";
import { defaultParts } from "../lab/run/configuration.ts";
import type { SimulationLists, SimulationOptions } from "../lab/run/simulation-options.ts";
import type { Target } from "../lab/run/target.ts";
import { presetRegistry } from "../policies/registry.ts";
import { comparisonTable } from "./compare/comparison-table.ts";
import { differenceTable } from "./compare/difference-table.ts";
import { servedTable } from "./compare/served-table.ts";
import {
  addBlockSize,
  addLaterOptions,
  addRunOptions,
  addTraceOptions,
  commaList,
  parseCapacity,
  parseRuleOption,
  path,
  rule,
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
  readonly seed: number;
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
  kvlab compare trace.jsonl --rule free-order=reverse,forward --json
  kvlab compare trace.jsonl --eviction lru,./mine.ts --first-difference
  kvlab compare trace.jsonl --target sim --preset vllm,sglang --rate 2,4,8
  kvlab compare trace.jsonl --target ${defaultBackend.name} --model ./llama --preset vllm,sglang

The offline optimum and the unlimited cache are always shown, as bounds. Where
policies have blocks of different sizes, all get the same number of tokens:
--blocks counts blocks of --block-size, or of the trace's unit or 16 tokens.

With --first-difference every combination is compared with the first one,
decision by decision (eviction: lru unless given, and no bounds). The exit code
is 0 if all decide the same, 1 if not.

With --target sim or ${backendNames.join(" or ")} there is one row for each combination: hit ratio,
latency and throughput. --blocks is then, unless given, what fits into the GPU's
memory, or for an engine 10 % of the distinct blocks.`;

export function addCompare(program: Command): void {
  const command = program
    .command("compare")
    .description("run every combination of comma lists over a trace and show one table")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .addOption(names("--preset <NAMES>", "real systems' compositions (all: every one)", "none"))
    .addOption(names("--index <NAMES>", "prefix indexes or files", `${defaultParts.index}, or the preset's`))
    .addOption(
      names("--eviction <NAMES>", "eviction policies or files", "all online ones that can differ, or the preset's"),
    )
    .addOption(names("--allocator <NAMES>", "allocators", `${defaultParts.allocator}, or the preset's`))
    .addOption(names("--scheduler <NAMES>", "schedulers", `${defaultParts.scheduler}, or the preset's`))
    .option("--rule <NAME=VALUES>", "values of a reuse rule (repeatable)", rule)
    .addOption(
      new Option("--blocks <SIZES>", "blocks, or percentages of the distinct blocks")
        .argParser(parseCapacities)
        .default(defaultShares, "1%,5%,10%,25%,50%"),
    );
  addTraceOptions(addBlockSize(command));
  addSimulationLists(addRunOptions(command))
    .addOption(
      new Option("--metric <NAME>", `which hit ratio: ${metrics.join(", ")}`)
        .argParser(parseMetric)
        .default(undefined, "block; token where block sizes differ"),
    )
    .option("--out <DIR>", "save each run in a folder of its own below DIR", path("--out", "a folder"))
    .option("--events", "with --out: keep the log of every decision")
    .option("--first-difference", "show where decisions part, event by event, instead of ratios")
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(compare);
  addLaterOptions(command);
}

/** An option that takes a comma list. */
function names(flags: string, description: string, initial: string): Option {
  const [name] = flags.split(" ");
  return new Option(flags, description)
    .argParser((text: string) => (name === "--preset" && text === "all" ? allPresets : commaList(name, text)))
    .default(undefined, initial);
}

const allPresets = presetRegistry.all.map((preset) => preset.name);

const parseCapacities = (text: string): Capacity[] => commaList("--blocks", text).map(parseCapacity);

function parseRuleLists(texts: readonly string[]): RuleLists {
  return Object.fromEntries(texts.map(parseRuleOption).map(({ name, values }) => [name, values]));
}

function parseMetric(text: string): Metric {
  const metric = metrics.find((name) => name === text);
  if (metric) return metric;
  const near = nearest(text, metrics);
  throw new InputError(
    `--metric is "${text}", ${near ? `did you mean "${near}"?` : `expected one of ${metrics.join(", ")}`}`,
  );
}

async function compare(files: readonly string[], given: CompareOptions, command: Command): Promise<void> {
  const options = { ...given, rules: parseRuleLists(given.rule ?? []) };
  if (options.events && options.out === undefined)
    throw new InputError("--events needs --out: the log is part of a saved run");
  const progress = new Progress();
  try {
    const control = { progress: progress.follow, signal: interruption };
    if (options.target !== "cache") await served(files, { ...withoutDefault(options, command), ...control });
    else if (options.firstDifference) {
      checkTarget(singleOf(options), []);
      refuseUnlimited(options);
      checkAlone(command);
      const { report, input } = await firstDifference(files, { ...options, ...control });
      progress.done();
      print(`${options.json ? JSON.stringify(report, undefined, 2) : differenceTable(input, report)}\n`);
      if (!report.identical) process.exitCode = different;
    } else {
      checkTarget(singleOf(options), []);
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
  if (out !== undefined && !json) print(`\nSaved in ${out}, a folder for each run.\n`);
}

async function served(files: readonly string[], options: ServedOptions): Promise<void> {
  checkTarget(singleOf(options));
  if (options.firstDifference) throw new InputError("--first-difference goes with --target cache");
  if (options.metric !== undefined)
    throw new InputError(
      `--metric chooses the ratio of a table of hit ratios; with --target ${options.target} there are several metrics`,
    );
  const { report, input, rows } = await withEngine(() => compareServed(files, options));
  show(options, report, () => servedTable(input, rows));
  const { out } = options;
  if (report.interrupted)
    throw new Interrupted(
      ` after ${rows.length} of ${counted(report.interrupted.of, "run")}; ${out === undefined ? "not saved" : `those are kept in ${out}`}`,
    );
}

type ServedOptions = Omit<CompareOptions, "blocks"> & ServedComparisonOptions;

/** Without sizes that were not given: a run in time has the memory of its device. */
function withoutDefault(options: CompareOptions, command: Command) {
  if (command.getOptionValueSource("blocks") === "cli") return options;
  const { blocks: _, ...others } = options;
  return others;
}

/** The options with the first value of each list, as one run has them. */
function singleOf({ replicas, router, rate, ...single }: ServedOptions) {
  return {
    ...single,
    ...(replicas && { replicas: replicas[0] }),
    ...(router && { router: router[0] }),
    ...(rate && { rate: rate[0] }),
  };
}

function refuseUnlimited({ blocks }: CompareOptions): void {
  if (blocks.includes("unlimited"))
    throw new InputError("--blocks has unlimited, which compare always shows; leave it out");
}

/** @throws InputError if an option that is about figures is given where none are shown. */
function checkAlone(command: Command): void {
  for (const name of ["out", "metric", "warmup"])
    if (command.getOptionValueSource(name) === "cli")
      throw new InputError(`--first-difference and --${name} exclude each other: no figures are shown or saved`);
}
