import { cacheReport } from "../../core/cache/report.ts";
import { optionsOf } from "../../core/replica/compose.ts";
import type { Explained } from "../explain/explain.ts";
import type { Input } from "../input.ts";
import { version } from "../package.ts";
import { effectiveRules, type RunConfig } from "../run/configuration.ts";
import type { OperationResult } from "../run/operations-file.ts";
import { describeEngine } from "../run/real-engine.ts";
import type { Run } from "../run/run.ts";
import type { ServedMetrics } from "../run/served-result.ts";
import { describe } from "../run/simulation.ts";
import type { TraceStream, TraceTotals } from "../trace-stream.ts";
import { isFromFile } from "../user-plugins/user-plugin.ts";
import type { OfflineBound, Uncertainty } from "./hit-ratios.ts";

/** The fields about the trace, the same in every JSON document. */
export interface TraceReport {
  readonly files: readonly string[];
  readonly format: string;
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly unitTokens: number;
}

/** The fields about a trace in memory. */
export function traceReport({ trace, files, format, inputTokens, outputTokens }: Input): TraceReport {
  return { files, format, requests: trace.requestCount, inputTokens, outputTokens, unitTokens: trace.unitTokens };
}

/** The fields about a trace whose totals are known. */
export function streamReport({ files, format }: TraceStream, totals: TraceTotals): TraceReport {
  const { requests, inputTokens, outputTokens, unitTokens } = totals;
  return { files, format, requests, inputTokens, outputTokens, unitTokens };
}

/** The fields about the configuration without its cache size, the same in every JSON document. */
export function policyReport(config: RunConfig) {
  const { preset, index, eviction, allocator, scheduler, schedulerOptions, blockTokens } = config;
  return {
    preset: preset?.name ?? null,
    index: index.name,
    ...(isFromFile(index) && { indexFile: index.file }),
    eviction: eviction.name,
    ...(isFromFile(eviction) && { evictionFile: eviction.file }),
    allocator: allocator.name,
    ...(isFromFile(allocator) && { allocatorFile: allocator.file }),
    scheduler: scheduler.name,
    ...(isFromFile(scheduler) && { schedulerFile: scheduler.file }),
    schedulerOptions: optionsOf("scheduler", scheduler, schedulerOptions),
    rules: effectiveRules(config),
    blockTokens,
  };
}

/** The part of a report that is known before the run. */
export const setupReport = (trace: TraceReport, config: RunConfig) => ({
  trace,
  policy: { ...policyReport(config), blocks: (config.eviction.unlimited ? undefined : config.blocks) ?? null },
  target: config.engine ? config.engine.backend.name : config.simulated ? "sim" : "cache",
  seed: config.seed,
  warmup: config.warmup ?? 0,
});

/** The part of a report about the simulated or the real engine, known before the run. */
export const machineReport = ({ simulated, engine }: RunConfig) => ({
  ...(simulated && { simulation: describe(simulated) }),
  ...(engine && { engine: describeEngine(engine) }),
});

/** The document that `replay --json` prints and `run.json` contains: schema run/1. Fields may be added, none renamed. */
export function runReport(
  trace: TraceReport,
  { config, result, simulation, blockReferences, wallMs }: Run,
  operations?: readonly OperationResult[],
  explained?: Explained,
) {
  return {
    schema: "run/1",
    kvlab: version,
    ...setupReport(trace, config),
    ...(simulation?.interrupted && { interrupted: simulation.interrupted }),
    cache: cacheReport(result.counters, result.fragmentation),
    ...(explained?.residency && { residency: explained.residency }),
    ...(explained?.explanation && { explain: explained.explanation }),
    ...(operations && { operations }),
    latency: simulation?.latency ?? null,
    throughput: simulation?.throughput ?? null,
    ...machineReport(config),
    ...(simulation && servedReport(simulation)),
    wallMs: Math.round(wallMs * 1000) / 1000,
    blockRefsPerS: Math.round(blockReferences / (wallMs / 1000)),
  };
}

/** Fields of timed runs only: offered load, SLO, replicas and the reasons of refusals. */
const servedReport = ({ load, slo, cluster, refusals, transfers, drafts }: ServedMetrics) => ({
  load,
  slo: slo ?? null,
  cluster,
  refusals,
  ...(transfers && { transfers }),
  ...(drafts && { drafts }),
});

/** The document that `kvlab replay --json` prints: schema run/1. Fields with a unit in their name have that unit. */
export type RunReport = ReturnType<typeof runReport> & {
  /** In `compare` of clock-free replays: the bound of the run's hit ratios. */
  readonly offlineBound?: OfflineBound;
  /** In `compare` of clock-free replays: what of the differences to other policies may be noise. */
  readonly uncertainty?: Uncertainty;
};
