import { join } from "node:path";
import { counted } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import type { BlockColumns } from "../../core/trace/content.ts";
import { combinations, KeysOnce, type PartLists, plainParts, sizesIn } from "../../lab/compare/combinations.ts";
import type { Configuration } from "../../lab/compare/comparison.ts";
import { Interrupted } from "../../lab/control.ts";
import { type Input, readInput, readingOf, type TraceReading } from "../../lab/input.ts";
import { commandOf } from "../../lab/output/command-line.ts";
import { runReport } from "../../lab/output/report.ts";
import { checkRunsFolder, claimRunDirectory } from "../../lab/output/run-directory.ts";
import { runId, saveRun } from "../../lab/output/save.ts";
import { blocksOf, type Capacity, defaultCapacity } from "../../lab/run/capacity.ts";
import { blockTokensFor, checkMemory, type RunConfig } from "../../lab/run/configuration.ts";
import { asSent } from "../../lab/run/load.ts";
import { engineCapacity, engineFrom, type RealEngine } from "../../lab/run/real-engine.ts";
import { distinctPromptBlocks, runReplay } from "../../lab/run/run.ts";
import { checkServable } from "../../lab/run/run-engine.ts";
import type { Simulated } from "../../lab/run/simulated.ts";
import { capacityFrom, simulatedFrom } from "../../lab/run/simulation.ts";
import type { SimulationOptions } from "../../lab/run/simulation-options.ts";
import { isEngine, type Target } from "../../lab/run/target.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import type { SimulationLists } from "../input/simulation-options.ts";
import { interruption, withEngine } from "../interrupt.ts";
import { print } from "../output/print.ts";
import { Progress } from "../output/progress.ts";
import { checkWarmup } from "../replay.ts";
import { type Row, servedTable } from "./served-table.ts";

export interface CompareServed
  extends TraceReading,
    PartLists,
    Omit<SimulationOptions, keyof SimulationLists>,
    SimulationLists {
  readonly target: Target;
  readonly blocks?: readonly Capacity[];
  readonly blockSize?: number;
  readonly metric?: string;
  readonly warmup: number;
  readonly seed: number;
  readonly audit?: boolean;
  readonly events?: boolean;
  readonly out?: string;
  readonly json?: boolean;
}

const onlinePolicies = evictionRegistry.all
  .filter(({ unlimited, offline, likeLru: asLru }) => !unlimited && !offline && !asLru)
  .map(({ name }) => name);

/** What is run for one row of the table. */
interface Planned {
  readonly configuration: Configuration;
  readonly load: SimulationOptions;
  readonly config: RunConfig;
  readonly blocks: BlockColumns;
}

/** One run in time, simulated or real, for each combination of everything that has several values, in one table. */
export async function compareServed(files: readonly string[], options: CompareServed): Promise<void> {
  if (options.metric !== undefined)
    throw new InputError(
      `--metric chooses the figure of a table of hit ratios; with --target ${options.target} there are several`,
    );
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both are the size of the cache");
  const { preset: policy, eviction, out } = options;
  const named = policy || eviction ? options : { ...options, eviction: onlinePolicies };
  const configurations = await combinations(named);
  const loads = loadsOf(options);
  if (out !== undefined) await checkRunsFolder(out);
  const progress = new Progress();
  try {
    const read = await readInput(files, options, progress, interruption);
    const input = { ...read, trace: asSent(read.trace, loads[0]) };
    checkWarmup(options.warmup, input.trace);
    const planned = await plan(input, options, configurations, loads);
    progress.start(isEngine(options.target) ? "serving" : "simulating", input.trace.requestCount * planned.length);
    const rows = await withEngine(() => runAll(input, options, planned, progress));
    progress.done();
    if (rows.length === 0) throw new Interrupted();
    const left = rows.length < planned.length ? { interrupted: { runsDone: rows.length, of: planned.length } } : {};
    const runs = rows.map(({ report }) => report);
    const shown = options.json
      ? JSON.stringify({ schema: "compare/1", ...left, runs }, undefined, 2)
      : servedTable(input, rows);
    print(`${shown}\n`);
    if (out !== undefined && !options.json) print(`\nSaved in ${out}, a folder for each run.\n`);
    if (left.interrupted)
      throw new Interrupted(
        ` after ${rows.length} of ${counted(planned.length, "run")}; ${out === undefined ? "not saved" : `those are kept in ${out}`}`,
      );
  } finally {
    progress.done();
  }
}

/** All that will be run; what cannot be is refused before anything is. */
async function plan(
  input: Input,
  options: CompareServed,
  configurations: readonly Configuration[],
  loads: readonly SimulationOptions[],
): Promise<Planned[]> {
  const { trace } = input;
  const keys = new KeysOnce(input);
  const unit = blockTokensFor(trace, options.blockSize);
  const distinctBlocks = distinctPromptBlocks(keys.of(plainParts(options, configurations), unit));
  const sizeOf = sizesIn(unit, distinctBlocks);
  const targets: { load: SimulationOptions; simulated?: Simulated; engine?: RealEngine }[] = [];
  for (const load of loads)
    targets.push(
      isEngine(options.target)
        ? { load, engine: engineFrom({ ...load, target: options.target }, trace, targets[0]?.engine?.loaded) }
        : { load, simulated: await simulatedFrom(load, trace) },
    );
  const planned: Planned[] = [];
  for (const configuration of configurations) {
    const { parts, blocksOf: preset } = configuration;
    const blockTokens = blockTokensFor(trace, options.blockSize, preset);
    const blocks = keys.of(parts, blockTokens);
    for (const given of options.blocks ?? [undefined])
      for (const { load, simulated, engine } of targets) {
        const fitting = async () =>
          engine
            ? sizeOf(engineCapacity(load, engine, blockTokens) ?? defaultCapacity, blockTokens)
            : blocksOf(
                (await capacityFrom(load, simulated, { blockTokens, eviction: parts.eviction })) ?? "unlimited",
                0,
              );
        const size = given === undefined ? await fitting() : sizeOf(given, blockTokens);
        const config: RunConfig = {
          ...parts,
          blockTokens,
          blocks: parts.eviction.unlimited ? undefined : size,
          schedulerOptions: { ...parts.schedulerOptions, ...options.schedulerOption },
          simulated,
          engine,
          seed: options.seed,
          warmup: options.warmup,
          audit: options.audit ?? false,
          events: options.events ?? false,
        };
        checkMemory(config.blocks);
        if (engine) {
          const blockCount = checkServable(trace, blocks, config, engine);
          engine.backend.memory.checkFits({ config: engine.loaded.config, bits: engine.bits, blockCount, blockTokens });
        }
        planned.push({ configuration, load, config, blocks });
      }
  }
  return planned;
}

/** Runs one after the other and saves each if asked to; fewer than there are if a signal comes, which only whole ones survive. */
async function runAll(
  input: Input,
  options: CompareServed,
  planned: readonly Planned[],
  progress: Progress,
): Promise<Row[]> {
  const { out, events = false } = options;
  const rows: Row[] = [];
  const how = {
    advance: (requests: number) => progress.advance(requests),
    keepSteps: out !== undefined,
    signal: interruption,
  };
  for (const { configuration, load, config, blocks } of planned) {
    try {
      const run = await runReplay(input.trace, blocks, config, how);
      if (run.simulation?.interrupted) return rows;
      const report = runReport(input, blocks, run);
      if (out !== undefined) {
        const directory = await claimRunDirectory(join(out, runId(input, report)));
        const command = commandOf(report, { ...load, ...readingOf(options), events }, configuration.ruleTexts);
        await saveRun(directory, run, report, command, interruption);
      }
      rows.push({ configuration, report });
    } catch (error) {
      if (error instanceof Interrupted) return rows;
      throw error;
    }
  }
  return rows;
}

/** One set of options for each combination of replicas, router and rate. */
function loadsOf({ replicas, router, rate, ...others }: CompareServed): SimulationOptions[] {
  const single: SimulationOptions = others;
  // With one replica there is nothing to choose from.
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
    throw new InputError(
      `--router${router ? "" : "-option"} has nothing to choose from with one replica: give --replicas`,
    );
  const known = new Set<string>();
  return loads.filter((load) => {
    const text = JSON.stringify(load);
    return !known.has(text) && known.add(text);
  });
}
