import type { IndexPlugin } from "../../core/plugins/index.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import { hashTable } from "../../policies/index/index.ts";
import type { Metric } from "../output/hit-ratios.ts";
import type { BlockBatches } from "../run/block-stream.ts";
import type { Parts } from "../run/configuration.ts";
import type { PackingBound } from "./packing.ts";
import { type BoundedCache, type ItemSize, ReuseIntervals } from "./reuse-intervals.ts";

/** The metrics that count tokens; with partial matches, tokens are hit that are in no hit block. */
const tokenMetrics: readonly Metric[] = ["token", "requestMeanToken"];

/** Content ids of the items whose reuse bounds a metric, as `blockKeysFor` and `SharedBlocks` create them. */
export interface Items extends ItemSize {
  readonly parts: { readonly index: IndexPlugin; readonly rules: Parts["rules"] };
}

/** The items of a metric: blocks, or the trace's units where tokens are hit in parts of blocks. */
export function itemsOf(metric: Metric, parts: Pick<Parts, "index" | "rules">, tokens: ItemSizes): Items {
  const rules = rulesFor(parts.index, parts.rules);
  const isPartial = rules.partial !== "none" && rules["drop-blocks"] === 0 && tokenMetrics.includes(metric);
  if (!isPartial) return { parts, itemTokens: tokens.blockTokens, isPartial };
  const { share, "cache-generated": generated } = rules;
  const units = { index: hashTable, rules: { share, "cache-generated": generated } };
  return { parts: units, itemTokens: tokens.unitTokens, isPartial };
}

interface ItemSizes {
  readonly blockTokens: number;
  readonly unitTokens: number;
}

/** The bounds of a trace's hits in a cache of one size. */
export interface HitBounds {
  /** By metric: the numerator of the hit ratio. */
  readonly of: (metric: Metric) => PackingBound;
  /** Requests that do not fit in the cache. */
  readonly tooLong: number;
}

/** The bounds of the metrics of these items. `between` is awaited after each batch. */
export async function hitBounds(
  items: BlockBatches,
  cache: BoundedCache,
  size: ItemSize,
  between: () => Promise<void> | void = () => {},
): Promise<HitBounds> {
  const intervals = new ReuseIntervals(cache, size);
  for await (const { trace, blocks } of items.batches()) {
    intervals.add(trace, blocks);
    await between();
  }
  return { of: (metric) => intervals.bound(metric), tooLong: intervals.tooLong };
}
