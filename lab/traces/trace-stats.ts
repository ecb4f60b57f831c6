import { CacheReplay } from "../../core/replica/replay.ts";
import { type ContentStats, type Spread, traceStats as statsOf, type TraceStats } from "../../traces/stats.ts";
import { type Control, yieldToEvents } from "../control.ts";
import { type Input, opened, type TraceChoice, type TraceReading } from "../input.ts";
import { blockTokensFor, defaultParts, partsNamed } from "../run/configuration.ts";

/** How the trace is read, and its block size. */
export interface TraceStatsOptions extends TraceReading, Control {
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
}

/** Schema trace-stats/1: the statistics, with null for absent ones. */
export interface TraceStatsDocument extends Omit<TraceStats, "requestsPerSMean" | "sessions" | "content"> {
  readonly schema: "trace-stats/1";
  readonly files: readonly string[];
  readonly format: string;
  /** Remarks about the trace, if there are any, such as an inferred unit. */
  readonly notes?: readonly string[];
  readonly requestsPerSMean: number | null;
  readonly sessions: NonNullable<TraceStats["sessions"]> | null;
  readonly content:
    | (Omit<ContentStats, "reuseDistanceBlocks"> & { readonly reuseDistanceBlocks: Spread | null })
    | null;
}

/** The result of `traceStats`. */
export interface DescribedTrace {
  /** The document that `kvlab trace stats --json` prints: schema trace-stats/1. */
  readonly report: TraceStatsDocument;
  readonly input: Input;
  readonly stats: TraceStats;
}

/**
 * Statistics of a trace: lengths in tokens, arrivals, sessions, and the share of blocks that repeat.
 *
 * @throws InputError, TraceError naming file and line, Interrupted
 */
export async function traceStats(source: TraceChoice, options: TraceStatsOptions = {}): Promise<DescribedTrace> {
  const input = await opened(source, options, { lengths: true });
  const { trace, files, format } = input;
  options.progress?.({ doing: "counting", done: 0 });
  await yieldToEvents(options.signal);
  const parts = await partsNamed(defaultParts, {});
  const blockTokens = blockTokensFor(trace, options.blockSize);
  const stats = statsOf(
    trace,
    trace.lengthsOnly ? undefined : CacheReplay.blockKeys({ ...parts, blockTokens, blocks: undefined, seed: 1 }, trace),
  );
  const { notes = [] } = input;
  const { requestsPerSMean = null, sessions = null, content } = stats;
  const report: TraceStatsDocument = {
    ...{ schema: "trace-stats/1", files, format },
    ...stats,
    ...(notes.length > 0 && { notes }),
    ...{ requestsPerSMean, sessions },
    content: content ? { ...content, reuseDistanceBlocks: content.reuseDistanceBlocks ?? null } : null,
  };
  return { report, input, stats };
}
