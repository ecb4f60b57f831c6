import { join } from "node:path";
import type { BlockColumns } from "../../core/trace/content.ts";
import { type Control, counting } from "../control.ts";
import { type Input, opened, readingOf, type TraceChoice, type TraceReading } from "../input.ts";
import { commandOf } from "../output/command-line.ts";
import { type RunReport, runReport, traceReport } from "../output/report.ts";
import { checkRunsFolder, claimRunDirectory } from "../output/run-directory.ts";
import { runId, saveRun } from "../output/save.ts";
import { distinctPromptBlocks, inMemory } from "../run/block-stream.ts";
import type { Capacity } from "../run/capacity.ts";
import { blockTokensFor, checkMemory, type RunConfig } from "../run/configuration.ts";
import { checkWarmup } from "../run/load.ts";
import { runReplay } from "../run/run.ts";
import { combinationsAndBounds, type PartLists, referenceParts, SharedBlockKeys, sizesIn } from "./combinations.ts";
import { type Comparison, type Configuration, defaultShares, type Metric } from "./comparison.ts";

/** Every combination of the lists is replayed at every size, and so are its bounds. */
export interface CompareOptions extends TraceReading, Omit<PartLists, "target">, Control {
  /** Sizes of the cache; by default 1, 5, 10, 25 and 50 % of the distinct blocks. */
  readonly blocks?: readonly Capacity[];
  /** The hit ratio of the table; by default `block`, or `token` where block sizes differ. */
  readonly metric?: Metric;
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  /** Random seed of the policies. */
  readonly seed?: number;
  /** Checks every invariant after every step. */
  readonly audit?: boolean;
  /** Keeps the event log of saved runs. */
  readonly events?: boolean;
  /** Saves each run in its own folder below this one. */
  readonly out?: string;
}

/** The result of `compare`. */
export interface ReplayComparison {
  /** The document that `kvlab compare --json` prints: schema compare/1. */
  readonly report: { readonly schema: "compare/1"; readonly runs: readonly RunReport[] };
  readonly comparison: Comparison;
}

/** Replays every combination and its bounds at every size. @throws InputError, Interrupted, PolicyError naming a plug-in's file */
export async function compareReplays(source: TraceChoice, options: CompareOptions = {}): Promise<ReplayComparison> {
  const { blocks: sizes = defaultShares, blockSize, warmup = 0, seed = 1, out } = options;
  const configurations = await combinationsAndBounds(options);
  if (out !== undefined) await checkRunsFolder(out);
  const input = await opened(source, options);
  const { trace } = input;
  checkWarmup(warmup, trace.requestCount);
  const keys = new SharedBlockKeys(input);
  // Capacities are counted in blocks of one size, even if the presets' sizes differ.
  const blockTokens = blockTokensFor(trace, blockSize);
  const distinctBlocks = distinctPromptBlocks(keys.of(referenceParts(options, configurations), blockTokens));
  const sizeOf = sizesIn(blockTokens, distinctBlocks);
  for (const { blocksOf: preset } of configurations)
    for (const capacity of sizes) checkMemory(sizeOf(capacity, blockTokensFor(trace, blockSize, preset)));
  const advance = counting(options, "comparing", trace.requestCount * runCount(configurations, sizes.length));
  const reports: RunReport[] = [];
  const results: { configuration: Configuration; runs: RunReport[] }[] = [];
  for (const configuration of configurations) {
    const { parts, kind, blocksOf: preset } = configuration;
    const presetBlockTokens = blockTokensFor(trace, blockSize, preset);
    const capacities = kind === "unlimited" ? (["unlimited"] as const) : sizes;
    const runs: RunReport[] = [];
    for (const capacity of capacities) {
      const config = {
        ...parts,
        blockTokens: presetBlockTokens,
        blocks: sizeOf(capacity, presetBlockTokens),
        seed,
        warmup,
        audit: options.audit ?? false,
        events: options.events ?? false,
      };
      runs.push(await runOne(input, config, keys.of(parts, presetBlockTokens), configuration, options, advance));
    }
    reports.push(...runs);
    results.push({ configuration, runs });
  }
  const metric = options.metric ?? defaultMetric(results);
  const comparison = { input, distinctBlocks, blockTokens, results, capacities: sizes, metric };
  return { report: { schema: "compare/1", runs: reports }, comparison };
}

/** Runs a configuration, and saves it if `out` is given. */
async function runOne(
  input: Input,
  config: RunConfig,
  blocks: BlockColumns,
  { ruleTexts }: Configuration,
  { out, events = false, signal, ...options }: CompareOptions,
  advance: (requests: number) => void,
): Promise<RunReport> {
  const run = await runReplay(inMemory(input.trace, blocks), config, { advance, signal });
  const report = runReport(traceReport(input), run);
  if (out !== undefined) {
    const directory = await claimRunDirectory(join(out, runId(input, report)));
    await saveRun(directory, run, report, commandOf(report, { ...readingOf(options), events }, ruleTexts), signal);
  }
  return report;
}

/** `token` for presets and for different block sizes, because blocks of different sizes are not comparable. */
function defaultMetric(results: readonly { readonly runs: readonly RunReport[] }[]): Metric {
  const sizes = new Set(results.map(({ runs }) => runs[0].policy.blockTokens));
  return sizes.size > 1 || results.some(({ runs }) => runs[0].policy.preset !== null) ? "token" : "block";
}

const runCount = (configurations: readonly Configuration[], capacities: number) =>
  configurations.reduce((sum, { kind }) => sum + (kind === "unlimited" ? 1 : capacities), 0);
