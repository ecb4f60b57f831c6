import { join } from "node:path";
import { type Command, Option } from "commander";
import { InputError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { BlockColumns } from "../core/trace/content.ts";
import { backendNames, defaultBackend } from "../engine/backends.ts";
import {
  combinations,
  combinationsAndBounds,
  KeysOnce,
  type PartLists,
  plainParts,
  type RuleLists,
  sizesIn,
} from "../lab/compare/combinations.ts";
import { type Configuration, type Metric, metrics } from "../lab/compare/comparison.ts";
import { type Input, readInput, readingOf, type TraceReading } from "../lab/input.ts";
import { commandOf } from "../lab/output/command-line.ts";
import { type RunReport, runReport } from "../lab/output/report.ts";
import { checkRunsFolder, claimRunDirectory } from "../lab/output/run-directory.ts";
import { runId, saveRun } from "../lab/output/save.ts";
import type { Capacity } from "../lab/run/capacity.ts";
import { blockTokensFor, checkMemory, defaultParts, type RunConfig } from "../lab/run/configuration.ts";
import { distinctPromptBlocks, runReplay } from "../lab/run/run.ts";
import type { SimulationOptions } from "../lab/run/simulation-options.ts";
import type { Target } from "../lab/run/target.ts";
import { presetRegistry } from "../policies/registry.ts";
import { compareServed } from "./compare/compare-served.ts";
import { comparisonTable } from "./compare/comparison-table.ts";
import { firstDifferences } from "./compare/first-difference.ts";
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
import { addSimulationLists, checkTarget, type SimulationLists } from "./input/simulation-options.ts";
import { interruption } from "./interrupt.ts";
import { print } from "./output/print.ts";
import { Progress } from "./output/progress.ts";
import { checkWarmup } from "./replay.ts";

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

/** In percent of the distinct blocks. */
const defaultShares = [1, 5, 10, 25, 50];

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
        .default(
          defaultShares.map((percent) => ({ share: percent / 100 })),
          defaultShares.map((n) => `${n}%`).join(","),
        ),
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
  const { replicas, router, rate, ...single } = options;
  const first = {
    ...single,
    ...(replicas && { replicas: replicas[0] }),
    ...(router && { router: router[0] }),
    ...(rate && { rate: rate[0] }),
  };
  checkTarget(first, options.target === "cache" ? [] : undefined);
  if (options.events && options.out === undefined)
    throw new InputError("--events needs --out: the log is part of a saved run");
  if (options.target !== "cache") {
    if (options.firstDifference) throw new InputError("--first-difference goes with --target cache");
    if (command.getOptionValueSource("blocks") === "cli") return await compareServed(files, options);
    const { blocks: _, ...others } = options;
    return await compareServed(files, others);
  }
  if (options.blocks.includes("unlimited"))
    throw new InputError("--blocks has unlimited, which compare always shows; leave it out");
  if (options.firstDifference) {
    checkAlone(command);
    return await firstDifferences(files, options, await combinations(options));
  }
  const configurations = await combinationsAndBounds(options);
  if (options.out !== undefined) await checkRunsFolder(options.out);
  const progress = new Progress();
  try {
    const input = await readInput(files, options, progress, interruption);
    const { trace } = input;
    checkWarmup(options.warmup, trace);
    const runner = new Runner(input, options, progress);
    const reports: RunReport[] = [];
    const keys = new KeysOnce(input);
    // Capacities are counted in blocks of one size, whatever those of the presets.
    const blockTokens = blockTokensFor(trace, options.blockSize);
    const plain = plainParts(options, configurations);
    const distinctBlocks = distinctPromptBlocks(keys.of(plain, blockTokens));
    const sizeOf = sizesIn(blockTokens, distinctBlocks);
    for (const { blocksOf: preset } of configurations)
      for (const capacity of options.blocks)
        checkMemory(sizeOf(capacity, blockTokensFor(trace, options.blockSize, preset)));
    progress.start("comparing", trace.requestCount * runCount(configurations, options.blocks.length));
    const results: { configuration: Configuration; runs: RunReport[] }[] = [];
    for (const configuration of configurations) {
      const { parts, kind, blocksOf: preset } = configuration;
      const own = blockTokensFor(trace, options.blockSize, preset);
      const capacities = kind === "unlimited" ? (["unlimited"] as const) : options.blocks;
      const runs: RunReport[] = [];
      for (const capacity of capacities) {
        const config = {
          ...parts,
          blockTokens: own,
          blocks: sizeOf(capacity, own),
          seed: options.seed,
          warmup: options.warmup,
          audit: options.audit ?? false,
          events: options.events ?? false,
        };
        runs.push(await runner.run(config, keys.of(parts, own), configuration));
      }
      reports.push(...runs);
      results.push({ configuration, runs });
    }
    progress.done();
    const shown = options.json
      ? JSON.stringify({ schema: "compare/1", runs: reports }, undefined, 2)
      : comparisonTable({
          input,
          distinctBlocks,
          blockTokens,
          results,
          capacities: options.blocks,
          metric: options.metric ?? usualMetric(results),
        });
    print(`${shown}\n`);
    if (options.out !== undefined && !options.json) print(`\nSaved in ${options.out}, a folder for each run.\n`);
  } finally {
    progress.done();
  }
}

/** Blocks of different sizes cannot be counted together. */
function usualMetric(results: readonly { readonly runs: readonly RunReport[] }[]): Metric {
  const sizes = new Set(results.map(({ runs }) => runs[0].policy.blockTokens));
  return sizes.size > 1 || results.some(({ runs }) => runs[0].policy.preset !== null) ? "token" : "block";
}

/** @throws InputError if an option that is about figures is given where none are shown. */
function checkAlone(command: Command): void {
  for (const name of ["out", "metric", "warmup"])
    if (command.getOptionValueSource(name) === "cli")
      throw new InputError(`--first-difference and --${name} exclude each other: no figures are shown or saved`);
}

const runCount = (configurations: readonly Configuration[], capacities: number) =>
  configurations.reduce((sum, { kind }) => sum + (kind === "unlimited" ? 1 : capacities), 0);

/** Runs one configuration after the other and saves each if asked to. */
class Runner {
  readonly #input: Input;
  readonly #options: CompareOptions;
  readonly #progress: Progress;

  constructor(input: Input, options: CompareOptions, progress: Progress) {
    this.#input = input;
    this.#options = options;
    this.#progress = progress;
  }

  async run(config: RunConfig, blocks: BlockColumns, { ruleTexts }: Configuration): Promise<RunReport> {
    const advance = (requests: number) => this.#progress.advance(requests);
    const run = await runReplay(this.#input.trace, blocks, config, { advance, signal: interruption });
    const report = runReport(this.#input, blocks, run);
    const { out, events = false } = this.#options;
    if (out !== undefined) {
      const directory = await claimRunDirectory(join(out, runId(this.#input, report)));
      await saveRun(
        directory,
        run,
        report,
        commandOf(report, { ...readingOf(this.#options), events }, ruleTexts),
        interruption,
      );
    }
    return report;
  }
}
