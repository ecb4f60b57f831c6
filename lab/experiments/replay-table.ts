import { BlockKeys } from "../../core/trace/content.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { defaultBlockTokens } from "../run/configuration.ts";
import type { Row } from "./experiment.ts";
import type { Metrics } from "./metrics.ts";
import type { CacheSetup, ExperimentRunner } from "./runner.ts";

/** A cache without its capacity. */
export type CacheChoice = Omit<CacheSetup, "blocks">;

export interface ReplayTableOptions {
  /** By name. */
  readonly caches: Readonly<Record<string, CacheChoice>>;
  /** Capacities as shares of the trace's distinct blocks. */
  readonly shares: readonly number[];
  readonly published?: (share: number, cache: string) => Metrics | undefined;
}

/** A capacity, a whole percentage of the distinct blocks, as text. */
export const capacityText = (share: number) => `${Math.round(100 * share)} %`;

/** Replays of a trace with several caches and capacities. */
export interface ReplayTable {
  readonly rows: readonly Row[];
  /** Hit tokens of this cache with this capacity. */
  hits(share: number, cache: string): number;
}

/** Replays the trace with each cache at each capacity. */
export async function replayTable(
  runner: ExperimentRunner,
  trace: Trace,
  { caches, shares, published }: ReplayTableOptions,
): Promise<ReplayTable> {
  const blockTokens = defaultBlockTokens(trace.unitTokens);
  const { distinct } = new BlockKeys({ unitTokens: trace.unitTokens, blockTokens }).of(trace);
  const hits = new Map<string, number>();
  const rows: Row[] = [];
  for (const share of shares) {
    for (const [name, choice] of Object.entries(caches)) {
      const configuration = `${capacityText(share)}, ${name}`;
      const { cache } = await runner.replay(trace, { ...choice, blocks: Math.max(1, Math.floor(share * distinct)) });
      const { hitTokens, lookupTokens, hitBlocks, lookupBlocks } = cache.counters;
      const theirs = published?.(share, name);
      hits.set(configuration, hitTokens);
      rows.push({
        configuration,
        ...(theirs && { published: theirs }),
        simulated: { hitRatioBlock: hitBlocks / lookupBlocks, hitRatioToken: hitTokens / lookupTokens },
      });
    }
  }
  return { rows, hits: (share, name) => hits.get(`${capacityText(share)}, ${name}`)! };
}

/** Caches with these eviction policies, by their names. */
export const cachesWith = (evictions: readonly string[]): Readonly<Record<string, CacheChoice>> =>
  Object.fromEntries(evictions.map((eviction) => [eviction, { eviction }]));
