import { join } from "node:path";
import { InputError } from "../core/errors.ts";
import { evictionRegistry } from "../policies/registry.ts";
import { combinations, KeysOnce, type PartLists, plainParts, sizesIn } from "./combinations.ts";
import type { Configuration } from "./comparison.ts";
import { checkMemory, type RunConfig } from "./configuration.ts";
import { readInput } from "./input.ts";
import { blocksOf, type Capacity, readingOf, type Target, type TraceReading } from "./options.ts";
import { print } from "./print.ts";
import { Progress } from "./progress.ts";
import { blockTokensFor, checkWarmup } from "./replay.ts";
import { type RunReport, runReport } from "./report.ts";
import { distinctPromptBlocks, runReplay } from "./run.ts";
import { checkRunsFolder, claimRunDirectory } from "./run-directory.ts";
import { commandOf, runId, saveRun } from "./save.ts";
import { asSent, capacityFrom, simulatedFrom } from "./simulation.ts";
import { checkTarget, type SimulationLists, type SimulationOptions } from "./simulation-options.ts";
import { simulationTable } from "./simulation-table.ts";

export interface CompareSimulations
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
  readonly out?: string;
  readonly json?: boolean;
}

const onlinePolicies = evictionRegistry.all
  .filter(({ unlimited, offline, asLru }) => !unlimited && !offline && !asLru)
  .map(({ name }) => name);

/** One simulation for each combination of everything that has several values, in one table. */
export async function compareSimulations(files: readonly string[], options: CompareSimulations): Promise<void> {
  if (options.metric !== undefined)
    throw new InputError("--metric chooses the figure of a table of hit ratios; with --target sim there are several");
  if (options.blocks !== undefined && options.capacity !== undefined)
    throw new InputError("--blocks and --capacity exclude each other: both are the size of the cache");
  const { policy, eviction } = options;
  const named = policy || eviction ? options : { ...options, eviction: onlinePolicies };
  const configurations = await combinations(named);
  const loads = loadsOf(options);
  for (const load of loads) checkTarget({ ...load, target: "sim" });
  if (options.out !== undefined) await checkRunsFolder(options.out);
  const progress = new Progress();
  try {
    const read = await readInput(files, options, progress);
    const input = { ...read, trace: asSent(read.trace, loads[0]) };
    const { trace } = input;
    checkWarmup(options.warmup, trace);
    const keys = new KeysOnce(input);
    const capacities = options.blocks ?? [undefined];
    const unit = blockTokensFor(trace, options.blockSize);
    const sizeOf = sizesIn(unit, distinctPromptBlocks(keys.of(plainParts(options, configurations), unit)));
    const rows: { configuration: Configuration; report: RunReport }[] = [];
    progress.start("simulating", trace.requestCount * configurations.length * loads.length * capacities.length);
    for (const configuration of configurations) {
      const { parts, blocksOf: preset, ruleTexts } = configuration;
      const blockTokens = blockTokensFor(trace, options.blockSize, preset);
      const blocks = keys.of(parts, blockTokens);
      for (const given of capacities)
        for (const load of loads) {
          const simulated = await simulatedFrom(load, trace);
          const fitting = async () =>
            blocksOf(
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
            seed: options.seed,
            warmup: options.warmup,
            audit: options.audit ?? false,
          };
          checkMemory(config.blocks);
          const advance = (requests: number) => progress.advance(requests);
          const run = await runReplay(trace, blocks, config, { advance, keepSteps: options.out !== undefined });
          const report = runReport(input, blocks, run);
          rows.push({ configuration, report });
          if (options.out === undefined) continue;
          const directory = await claimRunDirectory(join(options.out, runId(input, report)));
          await saveRun(directory, run, report, commandOf(report, { ...load, ...readingOf(options) }, ruleTexts));
        }
    }
    progress.done();
    const runs = rows.map(({ report }) => report);
    const shown = options.json
      ? JSON.stringify({ schema: "compare/1", runs }, undefined, 2)
      : simulationTable(input, rows);
    print(`${shown}\n`);
    if (options.out !== undefined && !options.json) print(`\nSaved in ${options.out}, a folder for each run.\n`);
  } finally {
    progress.done();
  }
}

/** One set of options for each combination of replicas, router and rate. */
function loadsOf({ replicas, router, rate, ...others }: CompareSimulations): SimulationOptions[] {
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
