import type { BlockColumns } from "../core/content.ts";
import { cacheReport } from "../core/report.ts";
import { effectiveRules } from "./configuration.ts";
import type { Input } from "./input.ts";
import { isOwnPolicy } from "./own-policy.ts";
import { version } from "./package.ts";
import { blockReferences, type Run } from "./run.ts";

/** The document that `replay --json` prints and `run.json` holds: schema run/1. Fields may be added, none renamed. */
export function runReport(input: Input, blocks: BlockColumns, { config, result, wallMs }: Run) {
  const { trace, files, format, inputTokens, outputTokens } = input;
  const { index, eviction, allocator, scheduler, blockTokens, seed } = config;
  return {
    schema: "run/1",
    kvlab: version,
    trace: {
      files,
      format,
      requests: trace.requestCount,
      inputTokens,
      outputTokens,
      unitTokens: trace.unitTokens,
    },
    policy: {
      preset: null,
      index: index.name,
      eviction: eviction.name,
      ...(isOwnPolicy(eviction) && { evictionFile: eviction.file }),
      allocator: allocator.name,
      scheduler: scheduler.name,
      rules: effectiveRules(config),
      blockTokens,
      blocks: (eviction.unlimited ? undefined : config.blocks) ?? null,
    },
    target: "cache",
    seed,
    warmup: config.warmup ?? 0,
    cache: cacheReport(result.cache.counters),
    latency: null,
    throughput: null,
    wallMs: Math.round(wallMs * 1000) / 1000,
    blockRefsPerS: Math.round(blockReferences(blocks) / (wallMs / 1000)),
  };
}
export type RunReport = ReturnType<typeof runReport>;
