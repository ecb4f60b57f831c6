import type { RequestResults } from "../../core/replica/replay.ts";
import { type Objective, type Slo, type SloMetric, sloMetrics, timesOf } from "../../core/serving/metrics.ts";
import type { Limit, OfferedLoad } from "../../core/serving/offered-load.ts";
import type { Outcomes } from "../../core/serving/outcomes.ts";
import type { Turns } from "../../core/serving/turns.ts";
import type { BlockBatches } from "../run/block-stream.ts";
import { blocksOf } from "../run/capacity.ts";
import { type Parts, type RunConfig, schedulerOptionsOn } from "../run/configuration.ts";
import { runReplay } from "../run/run.ts";
import type { RunSink } from "../run/run-sink.ts";
import { capacityFrom, simulatedFrom } from "../run/simulation.ts";
import type { SimulationOptions } from "../run/simulation-options.ts";
import type { TaskOptions } from "../threads/task-threads.ts";
import type { TraceTotals } from "../trace-stream.ts";
import type { SessionGroups } from "../uncertainty/session-groups.ts";

/** A simulated cluster: what a measurement depends on, apart from its plug-ins and the trace. */
export interface Cluster {
  /** Number of the trace's blocks among those of all block sizes. */
  readonly input: number;
  readonly blockTokens: number;
  readonly load: SimulationOptions;
  /** Every replica has an unlimited cache. */
  readonly unlimited: boolean;
  readonly seed: number;
  readonly warmup: number;
}

/** The trace of all measurements. */
export interface MeasuredTrace {
  readonly inputs: readonly BlockBatches[];
  readonly totals: TraceTotals;
  /** In a closed loop. */
  readonly turns: Turns | undefined;
  readonly groups: SessionGroups;
}

/** Sums over the requests of each group of sessions. */
export interface GroupSums {
  readonly hitTokens: Float64Array;
  readonly lookupTokens: Float64Array;
  /** By metric with a limit: requests that have the metric, and those within the limit. */
  readonly requests: Readonly<Partial<Record<SloMetric, Float64Array>>>;
  readonly within: Readonly<Partial<Record<SloMetric, Float64Array>>>;
}

/** The results of one simulation. */
export interface Measured {
  readonly met: boolean;
  /** The largest ratio of a metric to its limit; infinite if requests were refused. */
  readonly worst: number;
  readonly objectives: readonly Objective[];
  /** Requests that attained every limit, per second. */
  readonly goodputRequestsPerS: number;
  readonly attained: number;
  readonly requestsPerS: number;
  readonly tokensPerS: number;
  readonly hitRatio: number;
  readonly computedPromptTokens: number;
  readonly ttftMs: { readonly p50: number; readonly p99: number } | null;
  readonly tpotMs: { readonly p50: number; readonly p99: number } | null;
  /** Blocks of a replica's cache; null if unlimited. */
  readonly blocks: number | null;
  readonly refusedRequests: number;
  readonly preemptions: number;
  /** Mean share of the makespan in which a replica is busy. */
  readonly utilisation: number;
  /** No block was evicted, expired or refused: the results are those of an unlimited cache. */
  readonly isUnlimited: boolean;
  /** An estimate of the replicas that the load needs; undefined if all requests arrive at once, or arrivals depend on the cluster. */
  readonly needed?: number | undefined;
  readonly limitedBy: Limit;
  readonly steady: boolean;
  readonly groups: GroupSums;
}

/** Simulates a cluster. @throws InputError if the model does not fit, Interrupted, PolicyError naming a plug-in's file */
export async function measure(
  parts: Parts,
  cluster: Cluster,
  { inputs, totals, turns, groups }: MeasuredTrace,
  { advance, signal }: TaskOptions,
): Promise<Measured> {
  const { input, load, warmup } = cluster;
  const config = await configOf(parts, cluster, totals, turns);
  const sums = new SessionSums(load.slo ?? {}, groups, warmup);
  const { result, simulation } = await runReplay(inputs[input], config, { sink: sums, advance, signal });
  const { slo, latency, throughput, load: offered, cluster: replicas } = simulation!;
  const { hitTokens, lookupTokens, refusedRequests, preemptions } = result.counters;
  const { evictedBlocks, expiredBlocks, refusedBlocks } = result.counters;
  const objectives = slo?.objectives ?? [];
  const spread = (of: typeof latency.ttftMs) => of && { p50: of.p50, p99: of.p99 };
  return {
    met: objectives.every(({ met }) => met),
    worst: Math.max(0, ...objectives.map(({ valueMs, limitMs }) => (valueMs ?? Number.POSITIVE_INFINITY) / limitMs)),
    objectives,
    goodputRequestsPerS: slo?.goodputRequestsPerS ?? 0,
    attained: slo?.attained ?? 0,
    requestsPerS: throughput.requestsPerS,
    tokensPerS: throughput.inputTokensPerS + throughput.outputTokensPerS,
    hitRatio: lookupTokens === 0 ? 0 : hitTokens / lookupTokens,
    computedPromptTokens: lookupTokens - hitTokens,
    ttftMs: spread(latency.ttftMs),
    tpotMs: spread(latency.tpotMs),
    blocks: config.blocks ?? null,
    refusedRequests,
    preemptions,
    utilisation: replicas.replicas.reduce((sum, each) => sum + each.utilisation, 0) / replicas.replicas.length,
    isUnlimited: warmup === 0 && evictedBlocks + expiredBlocks + refusedBlocks + refusedRequests === 0,
    needed: neededReplicas(load, offered),
    limitedBy: offered.limitedBy,
    steady: offered.steady,
    groups: sums.sums,
  };
}

/** As many replicas as would have served the requests while they arrived. */
function neededReplicas(
  { replicas = 1, loop, concurrency }: SimulationOptions,
  { windowMs, drainMs }: OfferedLoad,
): number | undefined {
  if (windowMs === 0 || loop === "closed" || concurrency !== undefined) return undefined;
  return Math.ceil(replicas * (1 + drainMs / windowMs));
}

/** The configuration of a cluster's replicas. @throws InputError if the model does not fit */
export async function configOf(
  parts: Parts,
  { load, unlimited, blockTokens, seed, warmup }: Cluster,
  totals: TraceTotals,
  turns: Turns | undefined,
): Promise<RunConfig> {
  const simulated = await simulatedFrom(load, undefined, totals, turns);
  const schedulerOptions = { ...schedulerOptionsOn(parts, simulated.hardware), ...load.schedulerOption };
  const sized = unlimited ? { ...load, blocks: "unlimited" as const } : load;
  const capacity = await capacityFrom(sized, simulated, { ...parts, schedulerOptions, blockTokens });
  const blocks = blocksOf(capacity ?? "unlimited", 0);
  return { ...parts, blockTokens, blocks, schedulerOptions, simulated, seed, warmup };
}

/** Sums up hits, and requests within the limits, by group of sessions. */
class SessionSums implements RunSink {
  readonly sums: GroupSums;
  readonly #slo: Slo;
  readonly #groups: SessionGroups;
  readonly #warmup: number;
  #requests = 0;

  constructor(slo: Slo, groups: SessionGroups, warmup: number) {
    this.#slo = slo;
    this.#groups = groups;
    this.#warmup = warmup;
    const zeros = () => new Float64Array(groups.groups);
    const limited = sloMetrics.filter((metric) => slo[metric] !== undefined);
    const ofMetrics = () => Object.fromEntries(limited.map((metric) => [metric, zeros()]));
    this.sums = { hitTokens: zeros(), lookupTokens: zeros(), requests: ofMetrics(), within: ofMetrics() };
  }

  addRequests(results: RequestResults, timed?: Outcomes): void {
    const { groupOf } = this.#groups;
    const { hitTokens, lookupTokens } = this.sums;
    const first = this.#requests;
    for (let row = Math.max(0, this.#warmup - first); row < results.inputTokens.length; row++) {
      const group = groupOf[first + row];
      hitTokens[group] += results.hitTokens[row];
      lookupTokens[group] += results.inputTokens[row];
      if (timed) this.#addTimes(timed, row, group);
    }
    this.#requests = first + results.inputTokens.length;
  }

  addSteps(): void {}

  #addTimes(timed: Outcomes, row: number, group: number): void {
    const times = timesOf(timed, row);
    for (const metric of sloMetrics) {
      const within = this.sums.within[metric];
      const value = times ? times[metric] : Number.POSITIVE_INFINITY;
      if (within === undefined || value === undefined) continue;
      this.sums.requests[metric]![group]++;
      if (value <= this.#slo[metric]!) within[group]++;
    }
  }
}
