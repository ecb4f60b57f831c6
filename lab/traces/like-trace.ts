import { type BlockColumns, BlockKeys } from "../../core/trace/content.ts";
import type { Trace, TraceSource } from "../../core/trace/trace.ts";
import { common, generated } from "../../traces/generators/generator.ts";
import { likeBatches } from "../../traces/generators/like.ts";
import { generatorNamed } from "../../traces/generators/registry.ts";
import { TraceModel } from "../../traces/generators/trace-model.ts";
import { ArrivalGaps } from "../../traces/stats/arrival-gaps.ts";
import { TraceStatistics, type TraceStats } from "../../traces/stats/stats.ts";
import { kolmogorovSmirnov, type Spread } from "../../traces/stats/value-counts.ts";
import type { Control } from "../control.ts";
import { streamed, type TraceReading } from "../input.ts";
import { blockTokensFor } from "../run/configuration.ts";
import { type GeneratedFile, writeGenerated } from "./generate-trace.ts";
import { withLateNamespaces } from "./late-namespaces.ts";

/** The trace that is imitated, and the file that is written. */
export interface LikeTraceOptions extends GeneratedFile, TraceReading, Control {
  /** By default as many as the trace has. */
  readonly requests?: number;
  readonly seed?: number;
  /** The generator whose sharing a trace of lengths gets; by default chat. */
  readonly sharing?: string;
}

/** A quantity in the trace and in the generated one; null where it has no values. */
export interface ComparedSpread {
  readonly trace: Spread | null;
  readonly generated: Spread | null;
}

/** How close a generated trace is. Schema trace-like/1. */
export interface TraceLikeness {
  readonly schema: "trace-like/1";
  readonly requests: number;
  /** The generator that sharing was taken from; null if it is the trace's own. */
  readonly sharing: string | null;
  /** Kolmogorov and Smirnov's distance of prompt lengths and of output lengths: 0 = equal, 1 = disjoint. */
  readonly inputLengthDistance: number;
  readonly outputLengthDistance: number;
  readonly inputLength: ComparedSpread;
  readonly outputLength: ComparedSpread;
  /** Time between consecutive arrivals in seconds, with quantiles to 1 %, and Kolmogorov and Smirnov's distance. */
  readonly arrivalGapS: ComparedSpread;
  readonly arrivalGapDistance: number;
  /** Different blocks between two uses of a block; null for a trace of lengths. */
  readonly reuseDistanceBlocks: ComparedSpread | null;
  /** Requests of each session; null if neither trace has sessions. */
  readonly sessionTurns: ComparedSpread | null;
  readonly requestsPerS: { readonly trace: number | null; readonly generated: number | null };
  /** Block hit ratio of LRU by cache size; null for a trace of lengths. */
  readonly hitRatios: readonly { readonly blocks: number; readonly trace: number; readonly generated: number }[] | null;
  readonly hitRatioDifferenceMax: number | null;
}

/**
 * Fits an empirical model to a trace and writes a trace that is drawn from it: the same distributions of lengths, arrivals and
 * sharing, no content. The report states how close it is.
 *
 * @throws InputError, TraceError, Interrupted
 */
export async function likeTrace(trace: string, options: LikeTraceOptions): Promise<TraceLikeness> {
  const source = await streamed([trace], options, { lengths: true });
  const head = await source.head();
  const isLengths = head.lengthsOnly === true;
  const unitTokens = isLengths ? common.unitTokens.default : blockTokensFor(head, undefined);
  const { model, original } = await withLateNamespaces(source.files, async (lateNamespaces) => {
    const fitted = { model: new TraceModel(unitTokens), original: new Measured() };
    const keys = new BlockKeys({
      unitTokens: head.unitTokens,
      blockTokens: isLengths ? head.unitTokens : unitTokens,
      wholePrompts: true,
      lateNamespaces,
    });
    for await (const batch of source.batches()) {
      const blocks = isLengths ? undefined : keys.of(batch);
      fitted.model.add(batch, blocks);
      fitted.original.add(batch, blocks);
    }
    return fitted;
  });
  const sharing = isLengths ? (options.sharing ?? "chat") : undefined;
  const requests = options.requests ?? model.requests;
  const like = {
    requests,
    seed: options.seed ?? 1,
    ...(sharing !== undefined && { sharing: await sharingOf(sharing) }),
  };
  const made = new Measured();
  const copied = new BlockKeys({ unitTokens, blockTokens: unitTokens });
  const counted = async function* (): AsyncGenerator<Trace> {
    for await (const batch of likeBatches(model, like)) {
      made.add(batch, copied.of(batch));
      yield batch;
    }
  };
  const generatedSource: TraceSource = { format: "like", files: [], content: "blocks", batches: counted };
  await writeGenerated(generatedSource, requests, options);
  return likeness(original, made, sharing ?? null);
}

/** The model of a generator's trace. */
async function sharingOf(name: string): Promise<TraceModel> {
  const model = new TraceModel(common.unitTokens.default);
  const keys = new BlockKeys({ unitTokens: model.unitTokens, blockTokens: model.unitTokens });
  for await (const batch of generated(generatorNamed(name)).batches()) model.add(batch, keys.of(batch));
  return model;
}

const cacheShares = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1];

/** What the report compares of a trace. */
class Measured {
  readonly statistics = new TraceStatistics();
  readonly gaps = new ArrivalGaps();

  add(batch: Trace, blocks: BlockColumns | undefined): void {
    this.statistics.add(batch, blocks);
    this.gaps.add(batch);
  }
}

function likeness(
  { statistics: trace, gaps }: Measured,
  { statistics: made, gaps: madeGaps }: Measured,
  sharing: string | null,
): TraceLikeness {
  const [original, generated] = [trace.stats(), made.stats()];
  const compared = (spreadOf: (stats: TraceStats) => Spread | undefined): ComparedSpread => ({
    trace: spreadOf(original) ?? null,
    generated: spreadOf(generated) ?? null,
  });
  const sizes = trace.content && cacheShares.map((share) => Math.max(1, Math.round(share * trace.content!.distinct)));
  const hitRatios =
    sizes?.map((blocks) => ({ blocks, trace: hitRatio(trace, blocks), generated: hitRatio(made, blocks) })) ?? null;
  return {
    ...{ schema: "trace-like/1", requests: made.inputLengths.total, sharing },
    inputLengthDistance: kolmogorovSmirnov(trace.inputLengths, made.inputLengths),
    outputLengthDistance: kolmogorovSmirnov(trace.outputLengths, made.outputLengths),
    inputLength: compared((stats) => stats.inputLength),
    outputLength: compared((stats) => stats.outputLength),
    arrivalGapS: { trace: gaps.spread() ?? null, generated: madeGaps.spread() ?? null },
    arrivalGapDistance: gaps.distance(madeGaps),
    reuseDistanceBlocks: trace.content ? compared((stats) => stats.content?.reuseDistanceBlocks) : null,
    sessionTurns: original.sessions || generated.sessions ? compared((stats) => stats.sessions?.turns) : null,
    requestsPerS: { trace: original.requestsPerSMean ?? null, generated: generated.requestsPerSMean ?? null },
    hitRatios,
    hitRatioDifferenceMax: hitRatios && Math.max(...hitRatios.map((at) => Math.abs(at.trace - at.generated))),
  };
}

function hitRatio({ content }: TraceStatistics, blocks: number): number {
  const { distances, references } = content!;
  let hits = 0;
  for (let distance = 0; distance < Math.min(blocks, distances.counts.length); distance++)
    hits += distances.counts[distance];
  return hits / references;
}
