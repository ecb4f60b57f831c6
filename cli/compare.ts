import { join } from "node:path";
import { type Command, Option } from "commander";
import type { BlockColumns } from "../core/content.ts";
import { InputError } from "../core/errors.ts";
import { nearest } from "../core/nearest.ts";
import type { EvictionPlugin } from "../core/plugins.ts";
import { CacheReplay, type ReplayConfig } from "../core/replay.ts";
import type { RuleName, RuleValue } from "../core/rules.ts";
import { belady, unbounded } from "../policies/eviction/index.ts";
import { evictionRegistry } from "../policies/registry.ts";
import { type Configuration, comparisonTable, type Metric, metrics } from "./comparison.ts";
import { checkMemory, defaultParts, evictionNamed, type Parts, partsNamed } from "./configuration.ts";
import { type Input, readInput } from "./input.ts";
import {
  addBlockSize,
  addLaterOptions,
  addRunOptions,
  addTraceOptions,
  blocksOf,
  type Capacity,
  commaList,
  parseCapacity,
  parseRuleOption,
  path,
  repeatable,
  type TraceReading,
} from "./options.ts";
import { print } from "./print.ts";
import { Progress } from "./progress.ts";
import { blockTokensFor, checkWarmup } from "./replay.ts";
import { type RunReport, runReport } from "./report.ts";
import { distinctPromptBlocks, runReplay } from "./run.ts";
import { checkRunsFolder, claimRunDirectory } from "./run-directory.ts";
import { commandOf, runId, saveRun } from "./save.ts";

interface CompareOptions extends TraceReading {
  readonly index: readonly string[];
  readonly eviction?: readonly string[];
  readonly allocator: readonly string[];
  readonly scheduler: readonly string[];
  readonly rule?: readonly string[];
  readonly blocks: readonly Capacity[];
  readonly metric: Metric;
  readonly blockSize?: number;
  readonly warmup: number;
  readonly seed: number;
  readonly audit?: boolean;
  readonly out?: string;
  readonly json?: boolean;
}

/** In percent of the distinct blocks. */
const defaultShares = [1, 5, 10, 25, 50];

const examples = `
Examples:
  kvlab compare                                 the built-in example
  kvlab compare trace.jsonl.gz --eviction lru,fifo,./mine.ts
  kvlab compare trace.jsonl --blocks 1000,10%,50% --metric token
  kvlab compare trace.jsonl --rule free-order=reverse,forward --json

The offline optimum and the unlimited cache are always shown, as bounds.`;

export function addCompare(program: Command): void {
  const command = program
    .command("compare")
    .description("run every combination of comma lists over a trace and show one table")
    .argument("[TRACE...]", 'trace files, read one after the other; none, or "example": the built-in example')
    .addOption(names("--index <NAMES>", "prefix indexes", defaultParts.index))
    .addOption(names("--eviction <NAMES>", "eviction policies or files").default(undefined, "all online ones"))
    .addOption(names("--allocator <NAMES>", "allocators", defaultParts.allocator))
    .addOption(names("--scheduler <NAMES>", "schedulers", defaultParts.scheduler))
    .option("--rule <NAME=VALUES>", "values of a reuse rule (repeatable)", repeatable)
    .addOption(
      new Option("--blocks <SIZES>", "blocks, or percentages of the distinct blocks")
        .argParser(parseCapacities)
        .default(
          defaultShares.map((percent) => ({ share: percent / 100 })),
          defaultShares.map((n) => `${n}%`).join(","),
        ),
    );
  addTraceOptions(addBlockSize(command));
  addRunOptions(command)
    .option("--metric <NAME>", `which hit ratio: ${metrics.join(", ")}`, parseMetric, "block" as const)
    .option("--out <DIR>", "save each run in a folder of its own below DIR", path("--out", "a folder"))
    .option("--json", "print one JSON document and nothing else")
    .addHelpText("after", examples)
    .action(compare);
  addLaterOptions(command);
}

/** An option that takes a comma list. */
function names(flags: string, description: string, initial?: string): Option {
  const option = new Option(flags, description).argParser((text: string) => commaList(flags.split(" ")[0], text));
  return initial === undefined ? option : option.default([initial], initial);
}

function parseCapacities(text: string): Capacity[] {
  const capacities = commaList("--blocks", text).map(parseCapacity);
  if (!capacities.includes("unlimited")) return capacities;
  throw new InputError("--blocks has unlimited, which compare always shows; leave it out");
}

function parseMetric(text: string): Metric {
  const metric = metrics.find((name) => name === text);
  if (metric) return metric;
  const near = nearest(text, metrics);
  throw new InputError(
    `--metric is "${text}", ${near ? `did you mean "${near}"?` : `expected one of ${metrics.join(", ")}`}`,
  );
}

async function compare(files: readonly string[], options: CompareOptions): Promise<void> {
  const configurations = await configurationsOf(options);
  if (options.out !== undefined) await checkRunsFolder(options.out);
  const progress = new Progress();
  try {
    const input = await readInput(files, options, progress);
    const { trace } = input;
    checkWarmup(options.warmup, trace);
    const common = {
      blockTokens: blockTokensFor(trace, options.blockSize),
      seed: options.seed,
      warmup: options.warmup,
    };
    const runner = new Runner(input, options, progress);
    const reports: RunReport[] = [];
    const blocksBy = new KeysOnce(input, common.blockTokens);
    const distinctBlocks = distinctPromptBlocks(blocksBy.of(configurations[0].parts));
    for (const capacity of options.blocks) checkMemory(blocksOf(capacity, distinctBlocks));
    progress.start("comparing", trace.requestCount * runCount(configurations, options.blocks.length));
    const results: { configuration: Configuration; runs: RunReport[] }[] = [];
    for (const configuration of configurations) {
      const { parts, kind } = configuration;
      const capacities = kind === "unlimited" ? (["unlimited"] as const) : options.blocks;
      const runs: RunReport[] = [];
      for (const capacity of capacities) {
        const config = {
          ...parts,
          ...common,
          blocks: blocksOf(capacity, distinctBlocks),
          audit: options.audit ?? false,
        };
        runs.push(await runner.run(config, blocksBy.of(parts), configuration));
      }
      reports.push(...runs);
      results.push({ configuration, runs });
    }
    progress.done();
    const shown = options.json
      ? JSON.stringify({ schema: "compare/1", runs: reports }, undefined, 2)
      : comparisonTable({ input, distinctBlocks, results, capacities: options.blocks, metric: options.metric });
    print(`${shown}\n`);
  } finally {
    progress.done();
  }
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

  async run(config: ReplayConfig, blocks: BlockColumns, { ruleTexts }: Configuration): Promise<RunReport> {
    const advance = (requests: number) => this.#progress.advance(requests);
    const run = await runReplay(this.#input.trace, blocks, config, { advance });
    const report = runReport(this.#input, blocks, run);
    const { out } = this.#options;
    if (out !== undefined) {
      const directory = await claimRunDirectory(join(out, runId(this.#input, report)));
      await saveRun(directory, run, report, commandOf(report, this.#options, false, ruleTexts));
    }
    return report;
  }
}

/** The content ids of the trace's blocks, computed once for all configurations whose rules agree on them. */
class KeysOnce {
  readonly #input: Input;
  readonly #blockTokens: number;
  readonly #known = new Map<string, BlockColumns>();

  constructor(input: Input, blockTokens: number) {
    this.#input = input;
    this.#blockTokens = blockTokens;
  }

  of(parts: Parts): BlockColumns {
    const rule = (name: RuleName) => parts.rules[name] ?? parts.index.defaults?.[name];
    const key = `${rule("collision")} ${rule("cache-generated")}`;
    let blocks = this.#known.get(key);
    if (!blocks) {
      const config = { ...parts, blockTokens: this.#blockTokens, blocks: undefined, seed: 1 };
      this.#known.set(key, (blocks = CacheReplay.blockKeys(config, this.#input.trace)));
    }
    return blocks;
  }
}

/** The cross product; with each combination of the other parts come the two bounds. */
async function configurationsOf(options: CompareOptions): Promise<Configuration[]> {
  const evictions = await evictionsOf(options.eviction);
  const online: Configuration[] = [];
  const bounds: Configuration[] = [];
  for (const rules of ruleCombinations(options.rule ?? [])) {
    const ruleTexts = Object.entries(rules).map(([name, value]) => `${name}=${value}`);
    for (const index of options.index)
      for (const allocator of options.allocator)
        for (const scheduler of options.scheduler) {
          const parts = await partsNamed({ index, allocator, scheduler, eviction: defaultParts.eviction }, rules);
          for (const { plugin, label } of evictions) {
            const kind = plugin.offline ? "offline" : "online";
            (kind === "online" ? online : bounds).push({
              parts: { ...parts, eviction: plugin },
              label,
              kind,
              ruleTexts,
            });
          }
          bounds.push({ parts: { ...parts, eviction: belady }, label: belady.name, kind: "offline", ruleTexts });
          bounds.push({
            parts: { ...parts, eviction: unbounded },
            label: unbounded.name,
            kind: "unlimited",
            ruleTexts,
          });
        }
  }
  return [...online, ...bounds];
}

/** By default all online policies; the bounds are there anyway. A user's policy is named by its file if need be. */
async function evictionsOf(names: readonly string[] | undefined): Promise<{ plugin: EvictionPlugin; label: string }[]> {
  if (!names) {
    const online = evictionRegistry.all.filter((plugin) => !plugin.unlimited && !plugin.offline);
    return online.map((plugin) => ({ plugin, label: plugin.name }));
  }
  const plugins: { plugin: EvictionPlugin; label: string }[] = [];
  for (const name of names) {
    const plugin = await evictionNamed(name);
    if (plugin === belady || plugin.unlimited) continue;
    const taken = plugins.some(({ label }) => label === plugin.name) || names.includes(plugin.name);
    plugins.push({ plugin, label: taken ? name : plugin.name });
  }
  return plugins;
}

type RuleChoice = Partial<Record<RuleName, RuleValue>>;

function ruleCombinations(texts: readonly string[]): RuleChoice[] {
  let combinations: RuleChoice[] = [{}];
  for (const text of texts) {
    const { name, values } = parseRuleOption(text);
    combinations = combinations.flatMap((before) => values.map((value) => ({ ...before, [name]: value })));
  }
  return combinations;
}
