import { cacheReport } from "../../core/cache/report.ts";
import { assert } from "../../core/errors.ts";
import { rulesFor } from "../../core/replica/compose.ts";
import type { SharedBlocks } from "../compare/combinations.ts";
import type { Configuration } from "../compare/comparison.ts";
import { yieldToEvents } from "../control.ts";
import type { Metric } from "../output/hit-ratios.ts";
import { isSummed } from "../output/request-hits.ts";
import type { BlockStream } from "../run/block-stream.ts";
import type { CurvePoint } from "./curve-document.ts";
import type { ReplayedSize } from "./replay-size.ts";
import { replaySizes } from "./replay-threads.ts";
import type { Sample } from "./sample.ts";
import { SampledHits, type SampledRequest } from "./sampled-hits.ts";
import { stackOrder } from "./stack-algorithm.ts";
import { type StackCache, StackCurve } from "./stack-curve.ts";

/** Settings that all curves of a trace share. */
export interface CurveSetup {
  readonly blockTokens: number;
  /** In blocks, ascending. */
  readonly sizes: readonly number[];
  /** The sizes of the caches that are replayed: those of a sample are smaller. */
  readonly cacheSizes: readonly number[];
  readonly sample: Sample | undefined;
  readonly warmup: number;
  readonly metric: Metric;
  /** Most threads of replays; undefined: the processors of the machine, where the replays are long enough. */
  readonly threads: number | undefined;
  readonly advance: (requests: number) => void;
  readonly signal: AbortSignal | undefined;
}

/** The points of all configurations whose hits at all sizes follow from one pass; equal curves are computed once. */
export async function onePassPoints(
  configurations: readonly Configuration[],
  shared: SharedBlocks,
  common: CurveSetup,
): Promise<Map<Configuration, CurvePoint[]>> {
  const known = new Map<BlockStream, Map<string, CurvePoint[]>>();
  const points = new Map<Configuration, CurvePoint[]>();
  for (const one of configurations) {
    const blocks = await shared.of(one.parts, common.blockTokens);
    const order = stackOrder(one.parts)!;
    const rules = rulesFor(one.parts.index, one.parts.rules);
    const key = [order, rules["match-limit"], rules["drop-blocks"], rules.reserve].join();
    const computed = known.get(blocks) ?? new Map<string, CurvePoint[]>();
    known.set(blocks, computed);
    const found = computed.get(key) ?? (await onePassCurve(blocks, { order, rules }, common));
    computed.set(key, found);
    points.set(one, found);
  }
  return points;
}

async function onePassCurve(
  input: BlockStream,
  cache: Pick<StackCache, "order" | "rules">,
  common: CurveSetup,
): Promise<CurvePoint[]> {
  const { blockTokens, cacheSizes, warmup } = common;
  const hits = await sampledHits(input, common);
  const observe =
    hits && ((request: number, i: number, blocks: number, tokens: number) => hits[i].add(request, blocks, tokens));
  const curve = new StackCurve({ ...cache, blockTokens, sizes: cacheSizes, warmup, ...(observe && { observe }) });
  for await (const { trace, blocks } of input.batches()) {
    curve.add(trace, blocks);
    common.advance(trace.requestCount);
    await yieldToEvents(common.signal);
  }
  return pointsFrom(
    common,
    curve.counters().map((counters) => cacheReport(counters)),
    hits,
  );
}

/** The points of all configurations that are replayed at each size. */
export async function replayedPoints(
  configurations: readonly Configuration[],
  shared: SharedBlocks,
  common: CurveSetup,
): Promise<Map<Configuration, CurvePoint[]>> {
  const { blockTokens, cacheSizes, warmup, sample } = common;
  const points = new Map<Configuration, CurvePoint[]>();
  const inputs = new Map<BlockStream, Configuration[]>();
  for (const one of configurations) {
    const input = await shared.of(one.parts, blockTokens);
    inputs.set(input, [...(inputs.get(input) ?? []), one]);
  }
  for (const [input, all] of inputs) {
    const sizesOf = ({ parts, seed = 1 }: Configuration) =>
      cacheSizes.map((blocks) => ({ parts, blockTokens, blocks, seed, warmup }));
    const options = { ...common, keepsHits: sample !== undefined };
    const replayed = await replaySizes(input, all.flatMap(sizesOf), options);
    for (const [c, one] of all.entries()) {
      const hits = await sampledHits(input, common);
      const ofOne = replayed.slice(c * cacheSizes.length, (c + 1) * cacheSizes.length);
      if (hits) for (const [i, size] of ofOne.entries()) addHits(hits[i], size, warmup);
      const reports = ofOne.map(({ report }) => report);
      points.set(one, pointsFrom(common, reports, hits));
    }
  }
  return points;
}

/** Adds the hits of measured requests. */
function addHits(sampled: SampledHits, { hits }: ReplayedSize, warmup: number): void {
  for (let request = warmup; request < hits!.blocks.length; request++)
    sampled.add(request, hits!.blocks[request], hits!.tokens[request]);
}

/** For a sample: the hits by size, without those of any request yet. */
async function sampledHits(input: BlockStream, { sample, blockTokens, metric, cacheSizes, warmup }: CurveSetup) {
  if (sample === undefined) return undefined;
  assert(isSummed(metric), "the metric has no estimate of its error");
  const requests: SampledRequest[] = [];
  for await (const { trace, blocks } of input.batches())
    for (let row = 0; row < trace.requestCount; row++) {
      const inputTokens = trace.inputTokens[row];
      const fullBlocks = Math.floor(inputTokens / blockTokens);
      const group = sample.groups[requests.length];
      requests.push({ group, promptBlocks: blocks.promptBlocks[row], inputTokens, fullBlocks });
    }
  return cacheSizes.map(() => new SampledHits(metric, requests, warmup, sample));
}

type CacheReport = ReturnType<typeof cacheReport>;

/** The points of one curve; `hits`: those of a sample by size. */
function pointsFrom(
  { metric, sizes, cacheSizes }: CurveSetup,
  reports: readonly CacheReport[],
  hits: readonly SampledHits[] | undefined,
): CurvePoint[] {
  const ratios = reports.map(({ hitRatio }) => hitRatio[metric]);
  return reports.map(({ hitRatio, refusedRequests }, i) => {
    const range = hits?.[i].interval(slopeAt(cacheSizes, ratios, i)) ?? { low: ratios[i], high: ratios[i] };
    return { blocks: sizes[i], hitRatio, ...range, refusedRequests };
  });
}

/** Change of the hit ratio by the logarithm of the size, between the sizes next to this one. */
function slopeAt(sizes: readonly number[], ratios: readonly number[], i: number): number {
  const [below, above] = [Math.max(0, i - 1), Math.min(sizes.length - 1, i + 1)];
  const distance = Math.log(sizes[above] / sizes[below]);
  return distance === 0 ? 0 : (ratios[above] - ratios[below]) / distance;
}
