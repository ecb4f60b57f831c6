import { join } from "node:path";
import { assert, InputError } from "../../core/errors.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { type Control, counting, Interrupted } from "../control.ts";
import { type Input, readingOf, streamed, type TraceChoice, type TraceReading } from "../input.ts";
import { commandOf } from "../output/command-line.ts";
import { type RunReport, runReport, streamReport } from "../output/report.ts";
import { checkRunsFolder, claimRunDirectory, TemporaryFiles } from "../output/run-directory.ts";
import { runId, saveRun } from "../output/save.ts";
import type { BlockStream } from "../run/block-stream.ts";
import { blocksOf, type Capacity, defaultCapacity } from "../run/capacity.ts";
import { blockTokensFor, checkMemory, deviceOf, type RunConfig, schedulerOptionsOn } from "../run/configuration.ts";
import { checkWarmup, withLoad } from "../run/load.ts";
import { engineCapacity, engineFrom, type RealEngine } from "../run/real-engine.ts";
import { onlyBatch, runReplay } from "../run/run.ts";
import { checkServable } from "../run/run-engine.ts";
import { discarded } from "../run/run-sink.ts";
import { tablesIn, turnsFrom } from "../run/run-stream.ts";
import type { Simulated } from "../run/simulated.ts";
import { capacityFrom, simulatedFrom } from "../run/simulation.ts";
import type { SimulationLists, SimulationOptions } from "../run/simulation-options.ts";
import { isEngine } from "../run/target.ts";
import { TraceStream, type TraceTotals } from "../trace-stream.ts";
import { withSeeds } from "./bands.ts";
import { combinations, type PartLists, referenceParts, SharedBlocks, sizesIn } from "./combinations.ts";
import type { Configuration } from "./comparison.ts";
import { groupsBy, type ServedBand, servedBands } from "./served-bands.ts";

/** Every combination of the lists is one timed run. */
export interface ServedComparisonOptions
  extends TraceReading,
    PartLists,
    Omit<SimulationOptions, keyof SimulationLists>,
    SimulationLists,
    Control {
  /** Sizes of the cache; by default the memory of the GPU or of the model. */
  readonly blocks?: readonly Capacity[] | undefined;
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  /** Random seed of the policies; several, of simulations only, are shown as one band. */
  readonly seed?: number | readonly number[];
  /** Checks every invariant after every step. */
  readonly audit?: boolean;
  /** Keeps the event log of saved runs. */
  readonly events?: boolean;
  /** Saves each run in its own folder below this one. */
  readonly out?: string;
}

/** One run of a comparison. */
export interface Row {
  readonly configuration: Configuration;
  readonly report: RunReport;
  /** Equal for runs that differ only in the seed. */
  readonly band: string;
}

/** The result of `compareServed`. */
export interface ServedComparison {
  /** The document that `kvlab compare --json` prints: schema compare/1. */
  readonly report: {
    readonly schema: "compare/1";
    readonly interrupted?: { readonly runsDone: number; readonly of: number };
    readonly runs: readonly RunReport[];
    /** Runs that differ only in the seed, if there are any. */
    readonly bands?: readonly ServedBand[];
  };
  readonly input: Pick<Input, "name" | "files" | "format">;
  readonly rows: readonly Row[];
}

const onlinePolicies = evictionRegistry.all
  .filter(({ unlimited, offline, likeLru, onlyByName }) => !unlimited && !offline && !likeLru && !onlyByName)
  .map(({ name }) => name);

interface Planned {
  readonly band: string;
  readonly configuration: Configuration;
  readonly load: SimulationOptions;
  readonly config: RunConfig;
  readonly blocks: BlockStream;
}

/**
 * One timed run, simulated or real, for each combination. If the signal is aborted, the report has the complete runs and
 * `interrupted`.
 *
 * @throws InputError, and Interrupted if no run was complete
 */
export async function compareServed(source: TraceChoice, options: ServedComparisonOptions): Promise<ServedComparison> {
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both set the size of the cache");
  const { preset, eviction, out, warmup = 0, target = "sim", seed = 1 } = options;
  const named = preset || eviction ? options : { ...options, eviction: onlinePolicies };
  const seeds = typeof seed === "number" ? [seed] : seed;
  if (seeds.length > 1 && isEngine(target))
    throw new InputError(`--seed has ${seeds.length} values, expected one with --target ${target}`);
  const configurations = withSeeds(await combinations(named), seeds);
  const loads = loadsOf(options);
  if (out !== undefined) await checkRunsFolder(out);
  const read = await streamed(source, options);
  const trace = needsWhole(options) ? withLoad(await read.whole(), loads[0]) : undefined;
  const stream = trace ? TraceStream.of(trace, read) : read;
  const shared = new SharedBlocks(stream, (batch) => trace ?? withLoad(batch, loads[0]));
  try {
    const totals = await stream.count(counting(options, `reading ${stream.name}`));
    checkWarmup(warmup, totals.requests);
    const input = { stream, shared, trace, totals };
    const planned = await plan(input, options, configurations, loads);
    const doing = isEngine(target) ? "serving" : "simulating";
    const rows = await runAll(input, options, planned, counting(options, doing, totals.requests * planned.length));
    if (rows.length === 0) throw new Interrupted();
    const left = rows.length < planned.length ? { interrupted: { runsDone: rows.length, of: planned.length } } : {};
    const runs = rows.map(({ report }) => report);
    const bands = servedBands(runs, groupsBy(rows.map(({ band }) => band)));
    const report = { schema: "compare/1" as const, ...left, runs, ...(bands.length > 0 && { bands }) };
    return { report, input: stream.label, rows };
  } finally {
    shared.close();
    await read.close();
  }
}

/** Whether the runs need the trace in memory: equal arrival times may be in several batches, and engines read tokens. */
const needsWhole = ({ target = "sim", spread = "none" }: ServedComparisonOptions): boolean =>
  isEngine(target) || spread !== "none";

/** The trace of the runs. */
interface ServedInput {
  readonly stream: TraceStream;
  readonly shared: SharedBlocks;
  readonly totals: TraceTotals;
  /** The trace in memory, if the runs need it. */
  readonly trace: Trace | undefined;
}

/** All runs, checked before the first one starts. */
async function plan(
  { stream, shared, totals, trace }: ServedInput,
  options: ServedComparisonOptions,
  configurations: readonly Configuration[],
  loads: readonly SimulationOptions[],
): Promise<Planned[]> {
  const { target = "sim" } = options;
  const unit = blockTokensFor(totals, options.blockSize);
  const { distinctBlocks } = await shared.of(referenceParts(options, configurations), unit);
  assert(distinctBlocks !== undefined, "the distinct blocks of a trace were not counted");
  const turns = await turnsFrom(stream, options);
  const sizeOf = sizesIn(unit, distinctBlocks);
  const targets: { load: SimulationOptions; simulated?: Simulated; engine?: RealEngine }[] = [];
  for (const load of loads)
    targets.push(
      isEngine(target)
        ? { load, engine: engineFrom({ ...load, target }, trace!, targets[0]?.engine?.loaded) }
        : { load, simulated: await simulatedFrom(load, undefined, totals, turns) },
    );
  const planned: Planned[] = [];
  for (const configuration of configurations) {
    const { parts, blocksOf: preset } = configuration;
    const blockTokens = blockTokensFor(totals, options.blockSize, preset);
    const blocks = await shared.of(parts, blockTokens);
    for (const [size, given] of (options.blocks ?? [undefined]).entries())
      for (const [number, { load, simulated, engine }] of targets.entries()) {
        const schedulerOptions = {
          ...schedulerOptionsOn(parts, deviceOf(simulated, engine)),
          ...options.schedulerOption,
        };
        const defaultSize = async () =>
          engine
            ? sizeOf(engineCapacity(load, engine, blockTokens) ?? defaultCapacity, blockTokens)
            : blocksOf(
                (await capacityFrom(load, simulated, { ...parts, schedulerOptions, blockTokens })) ?? "unlimited",
                0,
              );
        const capacity = given === undefined ? await defaultSize() : sizeOf(given, blockTokens);
        const config: RunConfig = {
          ...parts,
          blockTokens,
          blocks: parts.eviction.unlimited ? undefined : capacity,
          schedulerOptions,
          simulated,
          engine,
          seed: configuration.seed ?? 1,
          warmup: options.warmup ?? 0,
          audit: options.audit ?? false,
          events: options.events ?? false,
        };
        checkMemory(config.blocks);
        if (engine) {
          const { trace, blocks: columns } = await onlyBatch(blocks);
          const blockCount = checkServable(trace, columns, config, engine);
          engine.backend.memory.checkFits({ config: engine.loaded.config, bits: engine.bits, blockCount, blockTokens });
        }
        // All seeds of a configuration have the same parts.
        const first = configurations.findIndex((one) => one.parts === parts);
        planned.push({ configuration, load, config, blocks, band: `${first} ${size} ${number}` });
      }
  }
  return planned;
}

/** Runs one after the other and saves each if `out` is given. If the signal is aborted, only complete runs are returned. */
async function runAll(
  { stream, totals }: ServedInput,
  options: ServedComparisonOptions,
  planned: readonly Planned[],
  advance: (requests: number) => void,
): Promise<Row[]> {
  const { out, events = false, signal } = options;
  const rows: Row[] = [];
  for (const { configuration, load, config, blocks, band } of planned) {
    const temporary = out === undefined ? undefined : new TemporaryFiles(out);
    try {
      const tables = temporary && !config.engine ? tablesIn(temporary, config) : undefined;
      const sink = config.engine ? undefined : (tables ?? discarded);
      const run = await runReplay(blocks, config, { advance, keepSteps: out !== undefined, sink, signal });
      if (run.simulation?.interrupted) return rows;
      const report = runReport(streamReport(stream, totals), run);
      if (out !== undefined) {
        const directory = await claimRunDirectory(join(out, runId(stream, report)));
        const command = commandOf(report, { ...load, ...readingOf(options), events }, configuration.ruleTexts);
        await saveRun(directory, run, report, command, signal, tables);
      }
      rows.push({ configuration, report, band });
    } catch (error) {
      if (error instanceof Interrupted) return rows;
      throw error;
    } finally {
      await temporary?.remove();
    }
  }
  return rows;
}

/** One set of options for each combination of replicas, router and rate. */
function loadsOf({ replicas, router, rate, ...others }: ServedComparisonOptions): SimulationOptions[] {
  const single: SimulationOptions = others;
  // Router options have no effect with one replica.
  const { routerOption, ...alone } = single;
  const loads: SimulationOptions[] = [];
  for (const count of replicas ?? [undefined])
    for (const name of router ?? [undefined])
      for (const perS of rate ?? [undefined])
        loads.push({
          ...((count ?? 1) > 1 ? single : alone),
          ...(count !== undefined && { replicas: count }),
          ...(name !== undefined && (count ?? 1) > 1 && { router: name }),
          ...(perS !== undefined && { rate: perS }),
        });
  if ((router ?? routerOption) !== undefined && loads.every((load) => (load.replicas ?? 1) === 1))
    throw new InputError(`--router${router ? "" : "-option"} has no effect with one replica; give --replicas`);
  const seen = new Set<string>();
  return loads.filter((load) => {
    // Routers that were passed as values are distinguished by identity.
    const text = JSON.stringify({ ...load, router: load.router && router?.indexOf(load.router) });
    return !seen.has(text) && seen.add(text);
  });
}
