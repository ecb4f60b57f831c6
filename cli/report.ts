import { optionsOf } from "../core/compose.ts";
import type { BlockColumns } from "../core/content.ts";
import { cacheReport } from "../core/report.ts";
import { effectiveRules, type RunConfig } from "./configuration.ts";
import type { Input } from "./input.ts";
import type { OperationResult } from "./operations-file.ts";
import { isOwnIndex } from "./own-index.ts";
import { isOwnPolicy } from "./own-policy.ts";
import { version } from "./package.ts";
import { describeEngine } from "./real-engine.ts";
import { blockReferences, type Run } from "./run.ts";
import type { ServedResult } from "./served-result.ts";
import { describe } from "./simulation.ts";

/** What every document says of a trace. */
export function traceReport({ trace, files, format, inputTokens, outputTokens }: Input) {
  return { files, format, requests: trace.requestCount, inputTokens, outputTokens, unitTokens: trace.unitTokens };
}

/** What every document says of a configuration, but for its size. */
export function policyReport(config: RunConfig) {
  const { preset, index, eviction, allocator, scheduler, schedulerOptions, blockTokens } = config;
  return {
    preset: preset?.name ?? null,
    index: index.name,
    ...(isOwnIndex(index) && { indexFile: index.file }),
    eviction: eviction.name,
    ...(isOwnPolicy(eviction) && { evictionFile: eviction.file }),
    allocator: allocator.name,
    scheduler: scheduler.name,
    schedulerOptions: optionsOf("scheduler", scheduler, schedulerOptions),
    rules: effectiveRules(config),
    blockTokens,
  };
}

/** The document that `replay --json` prints and `run.json` holds: schema run/1. Fields may be added, none renamed. */
export function runReport(
  input: Input,
  blocks: BlockColumns,
  { config, result, simulation, wallMs }: Run,
  operations?: readonly OperationResult[],
) {
  const { eviction, seed } = config;
  return {
    schema: "run/1",
    kvlab: version,
    trace: traceReport(input),
    policy: { ...policyReport(config), blocks: (eviction.unlimited ? undefined : config.blocks) ?? null },
    target: config.engine ? "cpu" : simulation ? "sim" : "cache",
    seed,
    warmup: config.warmup ?? 0,
    ...(simulation?.interrupted && { interrupted: simulation.interrupted }),
    cache: cacheReport(result.counters, result.fragmentation),
    ...(operations && { operations }),
    latency: simulation?.latency ?? null,
    throughput: simulation?.throughput ?? null,
    ...(simulation && config.simulated && { simulation: describe(config.simulated) }),
    ...(config.engine && { engine: describeEngine(config.engine) }),
    ...(simulation && servedReport(simulation)),
    wallMs: Math.round(wallMs * 1000) / 1000,
    blockRefsPerS: Math.round(blockReferences(blocks, simulation?.requests.finishedNs) / (wallMs / 1000)),
  };
}

/** What only runs in time have: promises, replicas, and why requests were refused. */
const servedReport = ({ slo, cluster, refusals }: ServedResult) => ({ slo: slo ?? null, cluster, refusals });

export type RunReport = ReturnType<typeof runReport>;
