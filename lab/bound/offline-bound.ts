import type { Rules } from "../../core/plugins/rules.ts";
import { SharedBlocks } from "../compare/combinations.ts";
import { defaultShares } from "../compare/comparison.ts";
import { type Control, counting } from "../control.ts";
import { streamed, type TraceChoice, type TraceReading } from "../input.ts";
import type { Metric, OfflineBound } from "../output/hit-ratios.ts";
import type { BlockStream } from "../run/block-stream.ts";
import { blocksOf, type Capacity } from "../run/capacity.ts";
import { blockTokensFor, type PartChoice, partsNamed } from "../run/configuration.ts";
import { checkWarmup } from "../run/load.ts";
import { type LookupCounts, OfflineBounds } from "./offline-bounds.ts";

/** The configuration whose hit ratios are bounded; its eviction policy does not matter. */
export interface OfflineBoundOptions extends TraceReading, Omit<PartChoice, "eviction">, Control {
  /** Reuse rules. */
  readonly rules?: Partial<Rules>;
  /** Sizes of the cache; by default 1, 5, 10, 25 and 50 % of the distinct blocks. */
  readonly blocks?: readonly Exclude<Capacity, "unlimited">[];
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  /** The hit ratios to bound; by default `block` and `token`. */
  readonly metrics?: readonly Metric[];
}

/** Bounds of the hit ratios in a cache of one size. */
export interface BoundAtSize extends Pick<OfflineBound, "hitRatio" | "reached"> {
  /** Size of the cache in blocks. */
  readonly blocks: number;
  readonly blockTokens: number;
}

/** Bounds the hit ratios of all eviction policies at every size. @throws InputError, TraceError, Interrupted */
export async function boundsOf(source: TraceChoice, options: OfflineBoundOptions = {}): Promise<BoundAtSize[]> {
  const { blocks: sizes = defaultShares, blockSize, warmup = 0, metrics = ["block", "token"], signal } = options;
  const { preset, index, allocator, scheduler, rules = {} } = options;
  const parts = await partsNamed({ preset, index, allocator, scheduler }, rules);
  const stream = await streamed(source, options);
  const shared = new SharedBlocks(stream);
  try {
    const totals = await stream.count(counting(options, `reading ${stream.name}`));
    checkWarmup(warmup, totals.requests);
    const blockTokens = blockTokensFor(totals, blockSize, parts.preset);
    const blocks = await shared.of(parts, blockTokens);
    const lookups = await lookupsOf(blocks, blockTokens, warmup);
    const bounds = new OfflineBounds(shared, totals.unitTokens, metrics, signal);
    const found: BoundAtSize[] = [];
    for (const size of sizes) {
      const count = blocksOf(size, blocks.distinctBlocks ?? 0)!;
      const cache = { ...parts, blockTokens, blocks: count, warmup };
      found.push({ blocks: count, blockTokens, ...(await bounds.of(cache, lookups)) });
    }
    return found;
  } finally {
    shared.close();
    await stream.close();
  }
}

/** The denominators of the hit ratios. */
export async function lookupsOf(input: BlockStream, blockTokens: number, warmup: number): Promise<LookupCounts> {
  const counts = { lookups: 0, lookupBlocks: 0, lookupTokens: 0, fullLookupBlocks: 0 };
  let request = 0;
  for await (const { trace, blocks } of input.batches()) {
    for (let row = 0; row < trace.requestCount; row++) {
      if (request++ < warmup) continue;
      counts.lookups++;
      counts.lookupBlocks += blocks.promptBlocks[row];
      counts.lookupTokens += trace.inputTokens[row];
      counts.fullLookupBlocks += Math.floor(trace.inputTokens[row] / blockTokens);
    }
  }
  return counts;
}
