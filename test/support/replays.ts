import { cacheReport } from "../../core/cache/report.ts";
import { type ReplayConfig, type ReplayResult, replayTrace } from "../../core/replica/replay.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { allocatorRegistry, evictionRegistry, indexRegistry, schedulerRegistry } from "../../policies/registry.ts";

/** Settings that differ from the default; policy and index by name. */
export interface OwnConfig extends Partial<Omit<ReplayConfig, "index">> {
  readonly policy?: string;
  readonly index?: string;
}

/** The default configuration with the trace's unit as block size (16 for traces of token ids), and `own` over it. */
export function configOf(trace: Trace, own: OwnConfig = {}): ReplayConfig {
  const { policy = "lru", index = "hash-table", ...rest } = own;
  return {
    index: indexRegistry.get(index),
    eviction: evictionRegistry.get(policy),
    allocator: allocatorRegistry.get("block"),
    scheduler: schedulerRegistry.get("naive"),
    blockTokens: trace.unitTokens === 1 ? 16 : trace.unitTokens,
    blocks: undefined,
    rules: {},
    seed: 1,
    ...rest,
  };
}

/** A replay and its report. */
export function replayed(trace: Trace, own: OwnConfig = {}) {
  const result: ReplayResult = replayTrace(trace, configOf(trace, own));
  return { ...result, report: cacheReport(result.cache.counters) };
}
