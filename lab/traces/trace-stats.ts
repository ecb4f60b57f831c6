import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { blockKeysFor } from "../../core/replica/compose.ts";
import type { ContentStats } from "../../traces/stats/content-statistics.ts";
import { TraceStatistics, type TraceStats } from "../../traces/stats/stats.ts";
import type { Spread } from "../../traces/stats/value-counts.ts";
import { type Control, yieldToEvents } from "../control.ts";
import { streamed, type TraceChoice, type TraceReading } from "../input.ts";
import { checkWritable } from "../output/run-directory.ts";
import { blockTokensFor, defaultParts, partsNamed } from "../run/configuration.ts";
import { withLateNamespaces } from "./late-namespaces.ts";
import { type TracePlot, tracePlots } from "./plots/trace-plots.ts";

/** How the trace is read, its block size, and the folder of its plots. */
export interface TraceStatsOptions extends TraceReading, Control {
  /** Tokens of a block, a multiple of the trace's unit. */
  readonly blockSize?: number;
  /** Folder that the plots are written to, as SVG; files of the same names are replaced. */
  readonly plots?: string;
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
  /** Short name, derived from the first file's name. */
  readonly name: string;
  readonly stats: TraceStats;
  /** Files of the plots that were written. */
  readonly plots: readonly string[];
}

/**
 * Statistics of a trace: lengths in tokens, arrivals, sessions, and the share of blocks that repeat; with `plots` also as
 * plots. The trace is read in one pass, or in two if its namespaces begin after the first batch, and memory depends on its distinct blocks and sessions only.
 *
 * @throws InputError, TraceError naming file and line, Interrupted
 */
export async function traceStats(source: TraceChoice, options: TraceStatsOptions = {}): Promise<DescribedTrace> {
  const { plots: folder, signal } = options;
  if (folder !== undefined) await checkWritable(folder, folder);
  const { statistics, name, files, format, notes } = await statisticsOf(source, options);
  const stats = statistics.stats();
  const plots: string[] = [];
  if (folder !== undefined) {
    await yieldToEvents(signal);
    plots.push(...(await writePlots(folder, tracePlots(name, statistics))));
  }
  const { requestsPerSMean = null, sessions = null, content } = stats;
  const report: TraceStatsDocument = {
    ...{ schema: "trace-stats/1", files, format },
    ...stats,
    ...(notes.length > 0 && { notes }),
    ...{ requestsPerSMean, sessions },
    content: content ? { ...content, reuseDistanceBlocks: content.reuseDistanceBlocks ?? null } : null,
  };
  return { report, name, stats, plots };
}

/** Returns the paths of the files. @throws InputError if one cannot be written */
async function writePlots(folder: string, plots: readonly TracePlot[]): Promise<string[]> {
  makeFolder(folder);
  try {
    for (const { file, svg } of plots) await writeFile(join(folder, file), svg);
  } catch (error) {
    throw new InputError(`${folder}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
  return plots.map(({ file }) => join(folder, file));
}

/** What is counted of a trace, and its name, files, format and notes. */
interface Counted {
  readonly statistics: TraceStatistics;
  readonly name: string;
  readonly files: readonly string[];
  readonly format: string;
  readonly notes: readonly string[];
}

/** Counts a trace batch by batch. @throws InputError, TraceError, Interrupted */
export async function statisticsOf(source: TraceChoice, options: TraceStatsOptions): Promise<Counted> {
  const notes = typeof source === "object" && "trace" in source ? [...(source.notes ?? [])] : [];
  const note = (text: string) => {
    notes.push(text);
    options.note?.(text);
  };
  const stream = await streamed(source, { ...options, note }, { lengths: true });
  const head = await stream.head();
  const { index } = await partsNamed(defaultParts, {});
  const blockTokens = blockTokensFor(head, options.blockSize);
  const { name, files, format } = stream;
  const statistics = await withLateNamespaces(files, async (lateNamespaces) => {
    const keys = blockKeysFor({ index, rules: {}, blockTokens }, head.unitTokens, { lateNamespaces });
    const counted = new TraceStatistics();
    let done = 0;
    for await (const batch of stream.batches()) {
      options.progress?.({ doing: `reading ${name}`, done });
      counted.add(batch, batch.lengthsOnly ? undefined : keys.of(batch));
      done += batch.requestCount;
    }
    return counted;
  });
  return { statistics, name, files, format, notes };
}
