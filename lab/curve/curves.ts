import { assert, InputError } from "../../core/errors.ts";
import { lookupsOf } from "../bound/offline-bound.ts";
import { OfflineBounds } from "../bound/offline-bounds.ts";
import { withSeeds } from "../compare/bands.ts";
import { combinations, type PartLists, referenceParts, SharedBlocks } from "../compare/combinations.ts";
import type { Configuration } from "../compare/comparison.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { streamed, type TraceChoice, type TraceReading } from "../input.ts";
import type { Metric } from "../output/hit-ratios.ts";
import { streamReport } from "../output/report.ts";
import { isSummed } from "../output/request-hits.ts";
import { checkWritable } from "../output/run-directory.ts";
import { version } from "../package.ts";
import { blocksOf, type Capacity } from "../run/capacity.ts";
import { blockTokensFor, checkMemory } from "../run/configuration.ts";
import { checkWarmup } from "../run/load.ts";
import type { TraceStream } from "../trace-stream.ts";
import { curveBands } from "./curve-bands.ts";
import type { Curve, CurveDocument, CurvePoint, SampleReport } from "./curve-document.ts";
import { writeCurveFiles } from "./curve-files.ts";
import { type CurveSetup, onePassPoints, replayedPoints } from "./points.ts";
import { type Sample, sampleOf } from "./sample.ts";
import { stackOrder } from "./stack-algorithm.ts";

/** The curves of `kvlab curve`: one for each combination of the lists. */
export interface CurveOptions
  extends TraceReading,
    Pick<PartLists, "preset" | "index" | "eviction" | "rules">,
    Control {
  /** Sizes of the cache in blocks of `blockSize` tokens, also for presets with other blocks; by default 25 sizes from 0.1 to 100 % of the distinct blocks. */
  readonly blocks?: readonly Exclude<Capacity, "unlimited">[];
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Leading requests that are in no metric. */
  readonly warmup?: number;
  /** Random seed of the policies; several are shown as one band. The first one is that of the sample. */
  readonly seed?: number | readonly number[];
  /** The hit ratio of the table, of `low` and of `high`; by default `block`, or `token` for presets. */
  readonly metric?: Metric;
  /** Adds the curve of the offline bound for each index and combination of rules. */
  readonly bound?: boolean;
  /** Most threads of replays; by default as many as there are processors, where the replays are long enough to gain from it. */
  readonly threads?: number;
  /** Folder that the document is written to, also as Parquet and as a plot; files of the same names are replaced. */
  readonly out?: string;
  /** Estimates the curves from this share of the requests' groups, above 0 and below 1, in caches that are smaller by the share. */
  readonly sample?: number;
}

/** The result of `curve`. */
export interface Curves {
  readonly report: CurveDocument;
  /** Short name, derived from the first file's name. */
  readonly name: string;
  /** Files that were written. */
  readonly files: readonly string[];
}

/** Computes hit ratios by size of the cache. @throws InputError, TraceError, PolicyError naming a plug-in's file, Interrupted */
export async function hitRatioCurves(source: TraceChoice, options: CurveOptions = {}): Promise<Curves> {
  const { preset, eviction = preset ? undefined : ["lru"], index, rules, warmup = 0, sample: rate } = options;
  const [seed] = seedsOf(options);
  checkSample(options);
  if (options.out !== undefined) await checkWritable(options.out, options.out);
  const configurations = (await combinations({ preset, index, eviction, rules })).flatMap((one) =>
    withSeeds([one], isOnePass(one) ? [seed] : seedsOf(options)),
  );
  const stream = await streamed(source, options);
  let sample: Sample | undefined;
  try {
    const totals = await stream.count(counting(options, `reading ${stream.name}`));
    checkWarmup(warmup, totals.requests);
    sample = rate === undefined ? undefined : await sampleOf(stream, { ...options, rate, seed, warmup });
    return await curvesOf(stream, sample, configurations, options);
  } finally {
    await sample?.stream.close();
    await stream.close();
  }
}

const seedsOf = ({ seed = 1 }: CurveOptions): readonly number[] => (typeof seed === "number" ? [seed] : seed);

function checkSample({ sample, bound = false, metric }: CurveOptions): void {
  if (sample === undefined) return;
  if (!(sample > 0 && sample < 1))
    throw new InputError(`--sample is ${sample * 100}%, expected more than 0% and less than 100%`);
  if (bound)
    throw new InputError("--bound and --sample exclude each other: the bound of a sample does not bound the trace");
  if (metric !== undefined && !isSummed(metric))
    throw new InputError(`--metric ${metric} has no estimate of its error, which --sample needs`);
}

async function curvesOf(
  whole: TraceStream,
  sample: Sample | undefined,
  configurations: readonly Configuration[],
  options: CurveOptions,
): Promise<Curves> {
  const { preset, blocks, blockSize, warmup = 0, metric = preset ? "token" : "block", signal, bound = false } = options;
  const stream = sample?.stream ?? whole;
  const totals = stream.totals!;
  const share = sample?.tokenShare ?? 1;
  const blockTokens = blockTokensFor(totals, blockSize);
  const shared = new SharedBlocks(stream);
  try {
    const distinct = (await shared.of(referenceParts(options, configurations), blockTokens)).distinctBlocks;
    assert(distinct !== undefined, "the distinct blocks of a trace were not counted");
    const common = Math.ceil((sample?.commonTokens ?? 0) / blockTokens);
    const distinctBlocks = common + Math.round(Math.max(0, distinct - common) / share);
    const wanted = sizesOf(blocks ?? defaultSizes, distinctBlocks);
    const sizes = sample && wanted.length === 1 ? withNeighbour(wanted[0]) : wanted;
    const replays = configurations.reduce((sum, one) => sum + (isOnePass(one) ? 1 : sizes.length), 0);
    const setup: CurveSetup = {
      threads: options.threads,
      ...{ blockTokens, sizes, cacheSizes: sizes, sample, metric, signal },
      warmup: sample?.warmup ?? warmup,
      advance: counting(options, "computing curves", totals.requests * replays),
    };
    const tokensOf = ({ blocksOf }: Configuration) => blockTokensFor(totals, blockSize, blocksOf);
    const points = new Map<Configuration, CurvePoint[]>();
    const bounds: Curve[] = [];
    for (const tokens of new Set(configurations.map(tokensOf))) {
      const cacheSizes = sizes.map((size) => {
        const shared = Math.min(size, common);
        const scaled = shared + Math.round((size - shared) * share);
        return Math.max(1, Math.floor((scaled * blockTokens) / tokens));
      });
      const same = configurations.filter((one) => tokensOf(one) === tokens);
      const sized = { ...setup, blockTokens: tokens, cacheSizes };
      for (const computed of await pointsOf(same, shared, sized)) points.set(...computed);
      if (bound) bounds.push(...(await boundCurves(same, shared, totals.unitTokens, sized)));
    }
    const pointsAt = (these: readonly number[], one: Configuration) =>
      points.get(one)!.filter((point) => these.includes(point.blocks));
    const curves = configurations.map((one): Curve => {
      const method = isOnePass(one) ? "one-pass" : "replay";
      const drawn = method === "replay" && seedsOf(options).length > 1 ? { seed: one.seed! } : {};
      const other = tokensOf(one) === blockTokens ? {} : { blockTokens: tokensOf(one) };
      return {
        ...labelOf(one),
        ...drawn,
        ...other,
        exact: sample === undefined,
        method,
        points: pointsAt(wanted, one),
      };
    });
    const computed = {
      ...{ schema: "curve/1" as const, kvlab: version, trace: streamReport(whole, whole.totals!) },
      ...{ blockTokens, distinctBlocks, metric, warmup, seed: seedsOf(options)[0] },
      ...(sample && { sample: sampleReport(sample, options.sample!, totals.requests, common) }),
      curves: [...curves, ...bounds],
    };
    const bands = curveBands(computed);
    const report = { ...computed, ...(bands.length < computed.curves.length && { bands }) };
    const files = options.out === undefined ? [] : await writeCurveFiles(options.out, whole.name, report, signal);
    return { report, name: whole.name, files };
  } finally {
    shared.close();
  }
}

/** The points of configurations with blocks of one size. */
async function pointsOf(
  configurations: readonly Configuration[],
  shared: SharedBlocks,
  setup: CurveSetup,
): Promise<Map<Configuration, CurvePoint[]>> {
  const [onePass, replayed] = [configurations.filter(isOnePass), configurations.filter((one) => !isOnePass(one))];
  if (replayed.length > 0) for (const size of setup.cacheSizes) checkMemory(size);
  const points = await onePassPoints(onePass, shared, setup);
  return new Map([...points, ...(await replayedPoints(replayed, shared, setup))]);
}

const sampleReport = (
  { chosenGroups, groupCount, tokenShare }: Sample,
  rate: number,
  requests: number,
  commonBlocks: number,
): SampleReport => ({
  ...{ rate, requests, groups: chosenGroups, ofGroups: groupCount, tokenShare, commonBlocks },
});

/** 0.1 % to 100 % of the distinct blocks: eight sizes for each factor of ten. */
const defaultSizes = Array.from({ length: 25 }, (_, i) => ({ share: 10 ** (i / 8 - 3) }));

/** In blocks, ascending, each once. */
function sizesOf(capacities: NonNullable<CurveOptions["blocks"]>, distinctBlocks: number): number[] {
  const sizes = capacities.map((capacity) => blocksOf(capacity, distinctBlocks)!);
  return [...new Set(sizes)].sort((a, b) => a - b);
}

/** The interval of a sample depends on the slope of its curve, which a single size does not have. */
const withNeighbour = (size: number) => [...new Set([Math.max(1, Math.round(0.8 * size)), size])];

const isOnePass = ({ parts }: Configuration) => stackOrder(parts) !== undefined;

const labelOf = ({ parts: { preset }, indexLabel, label, ruleTexts }: Configuration) => ({
  ...(preset && { preset: preset.name }),
  index: indexLabel,
  eviction: label,
  rules: ruleTexts,
});

/** The bound of each index and combination of rules. */
async function boundCurves(
  configurations: readonly Configuration[],
  shared: SharedBlocks,
  unitTokens: number,
  { blockTokens, sizes, cacheSizes, warmup, metric, signal }: CurveSetup,
): Promise<Curve[]> {
  const bounds = new OfflineBounds(shared, unitTokens, ["block", "token", metric], signal);
  const curves = new Map<string, Curve>();
  for (const one of configurations) {
    const label = { ...labelOf(one), eviction: "bound" };
    const key = JSON.stringify(label);
    if (curves.has(key)) continue;
    const lookups = await lookupsOf(await shared.of(one.parts, blockTokens), blockTokens, warmup);
    const points: CurvePoint[] = [];
    for (const [i, blocks] of cacheSizes.entries()) {
      const { hitRatio, reached } = await bounds.of({ ...one.parts, blockTokens, blocks, warmup }, lookups);
      points.push({ blocks: sizes[i], hitRatio, low: reached[metric]!, high: hitRatio[metric]! });
      await yieldToEvents(signal);
    }
    const exact = points.every(({ low, high }) => low === high);
    curves.set(key, { ...label, exact, method: "bound", points });
  }
  return [...curves.values()];
}
