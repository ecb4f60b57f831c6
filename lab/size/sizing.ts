import { InputError } from "../../core/errors.ts";
import { type Slo, sloMetrics } from "../../core/serving/metrics.ts";
import { hardwareNamed } from "../../sim/cost/hardware.ts";
import { combinations, SharedBlocks } from "../compare/combinations.ts";
import type { Configuration } from "../compare/comparison.ts";
import { counting } from "../control.ts";
import { streamed, type TraceChoice } from "../input.ts";
import type { BlockStream } from "../run/block-stream.ts";
import { blockTokensFor } from "../run/configuration.ts";
import { costNote } from "../run/cost-note.ts";
import { checkWarmup, withLoad } from "../run/load.ts";
import { turnsFrom } from "../run/run-stream.ts";
import type { Simulated } from "../run/simulated.ts";
import { simulatedFrom, smallestStage, stageCacheBytes } from "../run/simulation.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import { TraceStream } from "../trace-stream.ts";
import { sessionGroups } from "../uncertainty/session-groups.ts";
import { fewestReplicas, type PromptLoad } from "./fewest-replicas.ts";
import {
  type Composition,
  checkLists,
  clusterOf,
  type GridLists,
  type GridOption,
  gridOf,
  type Machine,
} from "./grid.ts";
import { configOf, type MeasuredTrace } from "./measure.ts";
import { Measurements } from "./measurements.ts";
import { type Prices, priceOf, pricesFrom } from "./prices.ts";
import type { SizeLoad, SizeOptions } from "./size-options.ts";

/** Defaults of the lists. */
export const sizeDefaults = {
  gpu: ["h200"],
  tp: [1, 2, 4, 8],
  preset: ["vllm"],
  eviction: ["lru", "s3-fifo", "arc"],
  router: ["round-robin", "least-loaded", "prefix-affinity"],
  maxGpus: 64,
} as const;

const defaultPercentile = 99;

/** A trace and all that is searched for it. */
export interface Sizing {
  readonly stream: TraceStream;
  readonly slo: Slo;
  readonly prices: Prices;
  readonly options: readonly GridOption[];
  readonly maxGpus: number;
  readonly excluded: readonly { readonly gpu: string; readonly tensorParallel: number; readonly reason: string }[];
  readonly costNotes: readonly string[];
  /** The simulated system of the first machine, for fields that all clusters share. */
  readonly simulated: Simulated;
  readonly trace: MeasuredTrace;
  readonly measurements: Measurements;
  readonly seed: number;
  readonly warmup: number;
}

/** Reads the trace, checks the options, and builds the grid. @throws InputError, TraceError, Interrupted */
export async function withSizing<Result>(
  source: TraceChoice,
  options: SizeOptions,
  use: (sizing: Sizing) => Promise<Result>,
): Promise<Result> {
  const { warmup = 0, seed = 1, maxGpus = sizeDefaults.maxGpus } = options;
  const slo = withPercentiles(options.slo);
  const prices = await pricesFrom(options.prices);
  const configurations = await combinations({
    preset: options.preset ?? sizeDefaults.preset,
    eviction: options.eviction ?? sizeDefaults.eviction,
    target: "sim",
  });
  const load = { ...loadOf(options), slo };
  const read = await streamed(source, options);
  const isSpread = options.spread !== undefined && options.spread !== "none";
  const whole = isSpread ? withLoad(await read.whole(), load) : undefined;
  const stream = whole ? TraceStream.of(whole, read) : read;
  const shared = new SharedBlocks(stream, (batch) => whole ?? withLoad(batch, load));
  let measurements: Measurements | undefined;
  try {
    const totals = await stream.count(counting(options, `reading ${stream.name}`));
    checkWarmup(warmup, totals.requests);
    const turns = await turnsFrom(stream, options);
    const { machines, excluded, costNotes, simulated } = await machinesOf(options, load, prices, totals, turns);
    const blocks: BlockStream[] = [];
    const compositions: Composition[] = [];
    for (const configuration of configurations) {
      const blockTokens = blockTokensFor(totals, undefined, configuration.blocksOf);
      const stream = await shared.of(configuration.parts, blockTokens);
      if (!blocks.includes(stream)) blocks.push(stream);
      const preset = presetNumber(configurations, configuration);
      compositions.push({ preset, configuration, blockTokens, input: blocks.indexOf(stream) });
    }
    const routers = options.router ?? sizeDefaults.router;
    const lists: GridLists = { machines, compositions, routers, capacities: options.capacity ?? [undefined], maxGpus };
    checkLists(lists);
    const trace: MeasuredTrace = { inputs: blocks, totals, turns, groups: await sessionGroups(blocks[0]) };
    const parts = compositions.map((each) => each.configuration.parts);
    measurements = await Measurements.open({ ...options, trace, parts, routers });
    const common = { stream, slo, prices, maxGpus, excluded, costNotes, simulated, trace, measurements, seed, warmup };
    return await use({ ...common, options: await boundedGrid(lists, common) });
  } finally {
    measurements?.close();
    shared.close();
    await read.close();
  }
}

/** @throws InputError without limits */
function withPercentiles(slo: Slo): Slo {
  const limited = sloMetrics.filter((metric) => slo[metric] !== undefined);
  if (limited.length === 0) throw new InputError("--slo has no limit, expected one such as ttft=500ms:p99");
  const percentiles = Object.fromEntries(
    limited.map((metric) => [metric, slo.percentiles?.[metric] ?? defaultPercentile]),
  );
  return { ...slo, percentiles };
}

/** The options that all clusters have in common. */
function loadOf(options: SizeLoad): SimulationOptions {
  const names = [
    ...([
      "model",
      "ep",
      "pp",
      "kvDtype",
      "gpuMemory",
      "swapSpace",
      "efficiency",
      "schedulerOption",
      "network",
    ] as const),
    ...(["loop", "concurrency", "speed", "rate", "spread", "maxOutput"] as const),
  ];
  return Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));
}

/** Configurations of one preset differ in the eviction policy only. */
function presetNumber(all: readonly Configuration[], { blocksOf }: Configuration): number {
  return [...new Set(all.map((each) => each.blocksOf))].indexOf(blocksOf);
}

/** The GPUs on which the model fits. @throws InputError if there are none */
async function machinesOf(
  { gpu = sizeDefaults.gpu, tp = sizeDefaults.tp, maxGpus = sizeDefaults.maxGpus }: SizeOptions,
  load: SimulationOptions,
  prices: Prices,
  totals: MeasuredTrace["totals"],
  turns: MeasuredTrace["turns"],
) {
  const machines: Machine[] = [];
  const excluded: { gpu: string; tensorParallel: number; reason: string }[] = [];
  const costNotes = new Set<string>();
  let first: Simulated | undefined;
  for (const name of new Set(gpu.map((each) => hardwareNamed(each).name))) {
    const microsPerGpuHour = Math.round(priceOf(prices, name).perHour * 1e6);
    for (const tensorParallel of tp) {
      const own = { ...load, gpu: name, tp: tensorParallel };
      const gpus = tensorParallel * (load.pp ?? 1);
      try {
        if (gpus > maxGpus) throw new InputError(`${gpus} GPUs are more than --max-gpus ${maxGpus}`);
        const simulated = await simulatedFrom(own, undefined, totals, turns);
        const cacheBytes = smallestStage(simulated, (shape) => stageCacheBytes(simulated, shape));
        machines.push({ gpu: name, tensorParallel, gpus, microsPerGpuHour, cacheBytes, load: own });
        first ??= simulated;
        const note = costNote(simulated);
        if (note !== undefined) costNotes.add(note);
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        excluded.push({ gpu: name, tensorParallel, reason: error.message });
      }
    }
  }
  if (first === undefined) throw new InputError(excluded[0].reason);
  return { machines, excluded, costNotes: [...costNotes], simulated: first };
}

/** The grid without numbers of replicas that cannot meet the SLO. */
async function boundedGrid(lists: GridLists, sizing: Omit<Sizing, "options">): Promise<GridOption[]> {
  const { machines } = lists;
  const options = gridOf(lists, () => 1);
  const prompts = await promptLoadOf(sizing);
  /** The first option of each machine with each preset. */
  const firsts = options.filter(
    ({ hardware, composition: { preset } }, i) =>
      options.findIndex((other) => other.hardware === hardware && other.composition.preset === preset) === i,
  );
  const unloaded = await sizing.measurements.all(firsts.map((option) => unloadedCluster(option, sizing)));
  const fewest = new Map<string, number>();
  for (const [i, option] of firsts.entries()) {
    const { parts, cluster } = clusterOf(option, 1, sizing, { unlimited: true });
    const config = await configOf(parts, cluster, sizing.trace.totals, sizing.trace.turns);
    const least = unloaded[i].met ? await fewestReplicas(config, unloaded[i], prompts) : Number.POSITIVE_INFINITY;
    fewest.set(`${option.hardware} ${option.composition.preset}`, least);
  }
  return gridOf(lists, (machine, preset) => fewest.get(`${machines.indexOf(machine)} ${preset}`)!);
}

/**
 * One request at a time on one replica with an unlimited cache: if this misses the SLO, every number of replicas does. No request waits
 * for another one, and all requests before it are cached.
 */
function unloadedCluster(option: GridOption, sizing: Pick<Sizing, "seed" | "warmup">) {
  const { parts, cluster } = clusterOf(option, 1, sizing, { unlimited: true });
  const { loop: _, speed: __, rate: ___, spread: ____, ...load } = cluster.load;
  return { parts, cluster: { ...cluster, load: { ...load, concurrency: 1 } } };
}

async function promptLoadOf({ trace, simulated }: Omit<Sizing, "options">): Promise<PromptLoad> {
  const { totals, inputs } = trace;
  const { loop, concurrency, speed } = simulated;
  const isOpen = loop === "open" && concurrency === undefined;
  const longest = new Float64Array(totals.requests);
  let at = 0;
  for await (const batch of inputs[0].batches()) {
    longest.set(batch.trace.inputTokens, at);
    at += batch.trace.requestCount;
  }
  longest.sort().reverse();
  return { longest, windowS: isOpen ? (totals.lastNs - totals.firstNs) / speed / 1e9 : undefined };
}
