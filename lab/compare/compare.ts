import { join } from "node:path";
import { assert } from "../../core/errors.ts";
import { cachedTokenBytes } from "../../sim/cost/kv-bytes.ts";
import { OfflineBounds, RefusalsSink } from "../bound/offline-bounds.ts";
import { type Control, counting } from "../control.ts";
import { readingOf, streamed, type TraceChoice, type TraceReading } from "../input.ts";
import { commandOf } from "../output/command-line.ts";
import type { Metric, OfflineBound } from "../output/hit-ratios.ts";
import { type RunReport, runReport, streamReport } from "../output/report.ts";
import { isSummed } from "../output/request-hits.ts";
import { checkRunsFolder, claimRunDirectory, TemporaryFiles } from "../output/run-directory.ts";
import { addToSavedRun, runId, saveRun } from "../output/save.ts";
import type { BlockStream } from "../run/block-stream.ts";
import type { Capacity } from "../run/capacity.ts";
import { blockTokensFor, checkMemory, type RunConfig } from "../run/configuration.ts";
import { checkWarmup } from "../run/load.ts";
import { runReplay } from "../run/run.ts";
import { discarded, type RunSink } from "../run/run-sink.ts";
import { tablesIn } from "../run/run-stream.ts";
import { modelFrom, simulatedDefaults } from "../run/simulation.ts";
import type { TraceStream } from "../trace-stream.ts";
import { sessionGroups } from "../uncertainty/session-groups.ts";
import { bandsOf } from "./band-document.ts";
import { configurationBands, withSeeds } from "./bands.ts";
import { boundOf, type FinishedRun, References } from "./bounded-runs.ts";
import { combinationsAndBounds, type PartLists, referenceParts, SharedBlocks, sizesIn } from "./combinations.ts";
import { type Band, type Comparison, type Configuration, defaultShares } from "./comparison.ts";
import { PairedDifferences } from "./paired-differences.ts";

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
  /** Model whose keys and values capacities are shown for in GiB: a name or a config.json; by default llama-3.1-8b. */
  readonly model?: string;
  /** Random seed of the policies; several are shown as one band. */
  readonly seed?: number | readonly number[];
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
  readonly report: {
    readonly schema: "compare/1";
    readonly runs: readonly RunReport[];
    /** Runs that differ only in the order of ties or in the seed, if there are any. */
    readonly bands?: readonly Band[];
  };
  readonly comparison: Comparison;
}

/** Replays every combination and its bounds at every size. @throws InputError, Interrupted, PolicyError naming a plug-in's file */
export async function compareReplays(source: TraceChoice, options: CompareOptions = {}): Promise<ReplayComparison> {
  const { out, seed = 1 } = options;
  const seeds = typeof seed === "number" ? [seed] : seed;
  const configurations = withSeeds(await combinationsAndBounds(options), seeds);
  if (out !== undefined) await checkRunsFolder(out);
  const stream = await streamed(source, options);
  const shared = new SharedBlocks(stream);
  try {
    return await compareStream(stream, shared, configurations, options);
  } finally {
    shared.close();
    await stream.close();
  }
}

/** The same, over a trace that is read once and then, batch by batch, from what was kept. */
async function compareStream(
  stream: TraceStream,
  shared: SharedBlocks,
  configurations: readonly Configuration[],
  options: CompareOptions,
): Promise<ReplayComparison> {
  const { blocks: sizes = defaultShares, blockSize, warmup = 0, signal } = options;
  const model = await modelFrom(options.model ?? simulatedDefaults.model);
  const totals = await stream.count(counting(options, `reading ${stream.name}`));
  checkWarmup(warmup, totals.requests);
  // Capacities are counted in blocks of one size, even if the presets' sizes differ.
  const blockTokens = blockTokensFor(totals, blockSize);
  const { distinctBlocks } = await shared.of(referenceParts(options, configurations), blockTokens);
  assert(distinctBlocks !== undefined, "the distinct blocks of a trace were not counted");
  const sizeOf = sizesIn(blockTokens, distinctBlocks);
  const presetTokens = ({ blocksOf: preset }: Configuration) => blockTokensFor(totals, blockSize, preset);
  for (const one of configurations) for (const capacity of sizes) checkMemory(sizeOf(capacity, presetTokens(one)));
  const metric = options.metric ?? defaultMetric(configurations.map(presetTokens), configurations);
  const bounds = new OfflineBounds(shared, totals.unitTokens, ["block", "token", metric], signal);
  const references = new References(configurations);
  const replays = runCount(configurations, sizes.length) + references.others(configurations) * sizes.length;
  const advance = counting(options, "comparing", totals.requests * replays);
  const finished = new Map<Configuration, Map<Capacity, Promise<RunReport>>>();
  // Differences of ratios with different denominators are not sums over sessions.
  const isPaired = isSummed(metric) && (metric === "token" || new Set(configurations.map(presetTokens)).size === 1);
  const differences = isPaired
    ? new PairedDifferences(
        metric,
        await sessionGroups(await shared.of(referenceParts(options, configurations), blockTokens)),
      )
    : undefined;

  /** Runs a configuration once at a capacity; its reference is run before. */
  const reportOf = (one: Configuration, capacity: Capacity): Promise<RunReport> => {
    const known = finished.get(one) ?? new Map<Capacity, Promise<RunReport>>();
    finished.set(one, known);
    const report = known.get(capacity) ?? run(one, capacity);
    known.set(capacity, report);
    return report;
  };
  const run = async (one: Configuration, capacity: Capacity): Promise<RunReport> => {
    const reference = references.of(one);
    const lru = reference && reference !== one ? (await reportOf(reference, capacity)).cache.hitRatio : undefined;
    const config = {
      ...one.parts,
      blockTokens: presetTokens(one),
      blocks: sizeOf(capacity, presetTokens(one)),
      seed: one.seed!,
      warmup,
      audit: options.audit ?? false,
      events: options.events ?? false,
    };
    const blocks = await shared.of(one.parts, config.blockTokens);
    const { out: _, ...unsaved } = options;
    const saved = configurations.includes(one) ? options : unsaved;
    const bounded = reference && ((finished: FinishedRun) => boundOf(bounds, finished, lru ?? finished.ratios));
    const sinkOf = (sink: RunSink) =>
      one.kind === "online" && differences ? differences.sinkFor(one, capacity, config, sink) : sink;
    return runOne(stream, config, blocks, one, saved, advance, bounded, sinkOf);
  };

  const results: { configuration: Configuration; runs: RunReport[] }[] = [];
  for (const configuration of configurations) {
    const capacities = configuration.kind === "unlimited" ? (["unlimited"] as const) : sizes;
    const runs: RunReport[] = [];
    for (const capacity of capacities) runs.push(await reportOf(configuration, capacity));
    results.push({ configuration, runs });
  }
  differences?.addTo(results, sizes, (one) => references.of(one));
  if (options.out !== undefined)
    for (const report of results.flatMap((result) => result.runs))
      if (report.uncertainty)
        await addToSavedRun(join(options.out, runId(stream, report)), { uncertainty: report.uncertainty });
  const groups = configurationBands(configurations);
  const bands = bandsOf(results, groups, { capacities: sizes, metric, differences });
  const shownModel = { name: model.name, tokenBytes: cachedTokenBytes(model, model.numberBytes, 1) };
  const comparison = {
    input: stream.label,
    distinctBlocks,
    blockTokens,
    ...{ results, groups, bands },
    capacities: sizes,
    metric,
    model: shownModel,
  };
  const runs = results.flatMap((result) => result.runs);
  return { report: { schema: "compare/1", runs, ...(bands.length > 0 && { bands }) }, comparison };
}

/** Runs a configuration, and saves it if `out` is given. */
async function runOne(
  stream: TraceStream,
  config: RunConfig,
  blocks: BlockStream,
  { ruleTexts }: Configuration,
  { out, events = false, signal, ...options }: CompareOptions,
  advance: (requests: number) => void,
  boundOf: ((run: FinishedRun) => Promise<OfflineBound>) | undefined,
  sinkOf: (sink: RunSink) => RunSink,
): Promise<RunReport> {
  const temporary = out === undefined ? undefined : new TemporaryFiles(out);
  try {
    const tables = temporary && tablesIn(temporary, config);
    const sink = new RefusalsSink(sinkOf(tables ?? discarded));
    const run = await runReplay(blocks, config, { advance, signal, sink });
    const plain = runReport(streamReport(stream, stream.totals!), run);
    const offlineBound = await boundOf?.({ run, refused: sink.refused, ratios: plain.cache.hitRatio });
    const report = { ...plain, ...(offlineBound && { offlineBound }) };
    if (out !== undefined) {
      const directory = await claimRunDirectory(join(out, runId(stream, report)));
      const command = commandOf(report, { ...readingOf(options), events }, ruleTexts);
      await saveRun(directory, run, report, command, signal, tables);
    }
    return report;
  } finally {
    await temporary?.remove();
  }
}

/** `token` for presets and for different block sizes, because blocks of different sizes are not comparable. */
function defaultMetric(blockTokens: readonly number[], configurations: readonly Configuration[]): Metric {
  return new Set(blockTokens).size > 1 || configurations.some(({ parts }) => parts.preset) ? "token" : "block";
}

const runCount = (configurations: readonly Configuration[], capacities: number) =>
  configurations.reduce((sum, { kind }) => sum + (kind === "unlimited" ? 1 : capacities), 0);
