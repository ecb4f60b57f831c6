import type { BlockColumns } from "../core/content.ts";
import { cacheReport } from "../core/report.ts";
import { effectiveRules, type RunConfig } from "./configuration.ts";
import type { Input } from "./input.ts";
import type { OperationResult } from "./operations-file.ts";
import { isOwnIndex } from "./own-index.ts";
import { isOwnPolicy } from "./own-policy.ts";
import { version } from "./package.ts";
import { blockReferences, type Run } from "./run.ts";

/** What every document says of a trace. */
export function traceReport({ trace, files, format, inputTokens, outputTokens }: Input) {
  return { files, format, requests: trace.requestCount, inputTokens, outputTokens, unitTokens: trace.unitTokens };
}

/** What every document says of a configuration, but for its size. */
export function policyReport(config: RunConfig) {
  const { preset, index, eviction, allocator, scheduler, blockTokens } = config;
  return {
    preset: preset?.name ?? null,
    index: index.name,
    ...(isOwnIndex(index) && { indexFile: index.file }),
    eviction: eviction.name,
    ...(isOwnPolicy(eviction) && { evictionFile: eviction.file }),
    allocator: allocator.name,
    scheduler: scheduler.name,
    rules: effectiveRules(config),
    blockTokens,
  };
}

/** The document that `replay --json` prints and `run.json` holds: schema run/1. Fields may be added, none renamed. */
export function runReport(
  input: Input,
  blocks: BlockColumns,
  { config, result, wallMs }: Run,
  operations?: readonly OperationResult[],
) {
  const { eviction, seed } = config;
  return {
    schema: "run/1",
    kvlab: version,
    trace: traceReport(input),
    policy: { ...policyReport(config), blocks: (eviction.unlimited ? undefined : config.blocks) ?? null },
    target: "cache",
    seed,
    warmup: config.warmup ?? 0,
    cache: cacheReport(result.cache.counters, result.cache.fragmentation),
    ...(operations && { operations }),
    latency: null,
    throughput: null,
    wallMs: Math.round(wallMs * 1000) / 1000,
    blockRefsPerS: Math.round(blockReferences(blocks) / (wallMs / 1000)),
  };
}
export type RunReport = ReturnType<typeof runReport>;
