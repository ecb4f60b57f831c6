import { closeSync, mkdirSync, openSync, renameSync, rmdirSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { cacheReport } from "../../core/cache/report.ts";
import { InputError } from "../../core/errors.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import { countNames, levelNames, type TimeSeries } from "../../core/serving/time-series.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import {
  clearLeft,
  columnFile,
  eventColumns,
  type LiveHeader,
  type LiveNow,
  type LiveSeries,
  liveFiles,
  liveFolder,
  mostLiveEvents,
} from "../../viz/server/live-format.ts";
import { sumOf, type Watched } from "./served-result.ts";

/** Interval between two updates. */
const everyMs = 300;
/** Intervals of a series at most. */
const mostIntervals = 512;
/** Live folders of this process. They are removed when it exits. */
const open = new Set<LiveRun>();
let isRegistered = false;

function closeAll(): void {
  for (const run of open) run.close();
}

/**
 * Shows a run to a dashboard while it is in progress, through files (viz/server/live-format.ts): a few times a second, between the
 * run's steps. The run knows nothing of it.
 */
export class LiveRun {
  readonly #runs: string;
  readonly #folder: string;
  /** The first folder that was made for it. */
  readonly #made: string | undefined;
  readonly #log: LogFiles;
  readonly #warn: (message: string) => void;
  #state: LiveNow["state"] = "running";
  #watched: Watched | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Among the runs in `runs`. @throws InputError if that cannot be written */
  static async open(
    runs: string,
    header: Omit<LiveHeader, "schema" | "pid" | "host">,
    warn: (message: string) => void,
  ): Promise<LiveRun> {
    await clearLeft(runs);
    try {
      return new LiveRun(resolve(runs), { schema: "live/1", pid: process.pid, host: hostname(), ...header }, warn);
    } catch (error) {
      throw new InputError(
        `--live: ${join(runs, liveFolder)} cannot be written (${(error as NodeJS.ErrnoException).code})`,
      );
    }
  }

  private constructor(runs: string, header: LiveHeader, warn: (message: string) => void) {
    this.#warn = warn;
    this.#runs = runs;
    this.#folder = join(runs, liveFolder, String(process.pid));
    const fresh = join(runs, liveFolder, `.${process.pid}.tmp`);
    for (const folder of [fresh, this.#folder]) rmSync(folder, { recursive: true, force: true });
    this.#made = mkdirSync(fresh, { recursive: true });
    writeFileSync(join(fresh, liveFiles.header), JSON.stringify(header));
    this.#log = new LogFiles(fresh);
    renameSync(fresh, this.#folder);
    if (!isRegistered) process.on("exit", closeAll);
    isRegistered = true;
    open.add(this);
  }

  /** Sets the run that is shown from now on. */
  watch(run: Watched): void {
    this.#watched = run;
    this.#tell();
    this.#timer ??= setInterval(() => this.#tell(), everyMs).unref();
  }

  /** The run has ended, and is being saved. */
  saving(): void {
    this.#state = "saving";
    this.#tell();
    clearInterval(this.#timer);
  }

  /** Nothing is left of it. */
  close(): void {
    if (!open.delete(this)) return;
    clearInterval(this.#timer);
    this.#log.close();
    rmSync(this.#folder, { recursive: true, force: true });
    removeIfEmpty(dirname(this.#folder));
    if (this.#made !== undefined && this.#made.length <= this.#runs.length) removeIfEmpty(this.#runs);
  }

  #tell(): void {
    if (!this.#watched || !open.has(this)) return;
    try {
      this.#write(this.#watched);
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException;
      if (syscall === undefined) throw error;
      this.#warn(`--live: ${this.#folder} cannot be written (${code}); the run goes on`);
      this.close();
    }
  }

  #write(run: Watched): void {
    const log = run.replicas.length === 1 ? run.replicas[0].log : undefined;
    if (log) this.#log.write(log);
    const { nowNs = 0 } = run;
    const series = run.series && seriesSoFar(run.series, run, nowNs);
    const over = series ? intervalsOver(series, nowNs) : 0;
    if (series) this.#replace(liveFiles.series, seriesDocument(series, over));
    this.#replace(liveFiles.now, {
      ...{ state: this.#state, ...figures(run), throughput: series ? throughputOf(series, over) : null },
      ...{ events: log ? log.count : null, eventsTold: this.#log.count },
    } satisfies LiveNow);
  }

  #replace(name: string, document: LiveNow | LiveSeries): void {
    const path = join(this.#folder, name);
    writeFileSync(`${path}.tmp`, JSON.stringify(document));
    renameSync(`${path}.tmp`, path);
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Another process has files in it.
  }
}

/** Sums over the replicas. */
function figures({ done, nowNs, replicas }: Watched): Omit<LiveNow, "state" | "throughput" | "events" | "eventsTold"> {
  const counters = sumOf(replicas.map(({ cache }) => cache.counters));
  const blocks = { free: 0, private: 0, held: 0, idle: 0 };
  let [running, waiting] = [0, 0];
  for (const { cache, replica } of replicas) {
    const { freeBlocks, index, pool } = cache;
    blocks.free += freeBlocks;
    blocks.idle += index.evictableBlocks;
    blocks.held += index.blockCount - index.evictableBlocks;
    blocks.private += pool.blockCount - freeBlocks - index.blockCount;
    running += replica?.runningCount ?? 0;
    waiting += replica?.waitingCount ?? 0;
  }
  const { lookupTokens, hitTokens, evictedBlocks, preemptions, hitRatio } = cacheReport(counters);
  return {
    ...{ requestsDone: done, timeNs: nowNs ?? null, running, waiting, blocks },
    ...{ lookupTokens, hitTokens, evictedBlocks, preemptions, hitRatio },
  };
}

/** With what the levels have been since they changed last; the run's own series is not touched. */
function seriesSoFar(series: TimeSeries, { replicas }: Watched, nowNs: Nanos): TimeSeries {
  const copy = series.copy();
  for (const replica of replicas) replica.settleInto?.(copy, nowNs);
  return copy;
}

/** A series may reach beyond now: of steps that are taken at once the last ends later. */
const intervalsOver = ({ startNs, intervalNs }: TimeSeries, nowNs: Nanos) =>
  Math.max(0, Math.floor((nowNs - startNs) / intervalNs));

/** Over the first `count` intervals. */
function throughputOf({ counts, intervalNs }: TimeSeries, count: number): LiveNow["throughput"] {
  const sum = (values: Float64Array) => values.subarray(0, count).reduce((total, value) => total + value, 0);
  const perS = (values: Float64Array) => (count === 0 ? 0 : sum(values) / ((count * intervalNs) / 1e9));
  return { requestsPerS: perS(counts.finished), outputTokensPerS: perS(counts.generatedTokens) };
}

/** The first `count` intervals; neighbours become one where there are many, and the last may be too few for that. */
function seriesDocument({ startNs, intervalNs, levels, counts }: TimeSeries, count: number): LiveSeries {
  const each = Math.max(1, Math.ceil(count / mostIntervals));
  const whole = Math.floor(count / each);
  const sums = (values: Float64Array, scale: number) =>
    Array.from({ length: whole }, (_, i) => {
      let sum = 0;
      for (let at = i * each; at < (i + 1) * each; at++) sum += values[at];
      return Math.round((sum / scale) * 1000) / 1000;
    });
  return {
    ...{ startNs, intervalNs: intervalNs * each, count: whole },
    columns: Object.fromEntries([
      ...levelNames.map((name) => [name, sums(levels[name], intervalNs * each)]),
      ...countNames.map((name) => [name, sums(counts[name], 1)]),
    ]),
  };
}

/** The event log, as far as it has been written. */
class LogFiles {
  count = 0;
  readonly #files: readonly (readonly [name: (typeof eventColumns)[number], file: number])[];

  constructor(folder: string) {
    this.#files = eventColumns.map((name) => [name, openSync(join(folder, columnFile(name)), "w")]);
  }

  /** The log has grown. */
  write(log: EventLog): void {
    const to = Math.min(log.count, mostLiveEvents);
    if (to === this.count) return;
    const columns = log.columns();
    for (const [name, file] of this.#files) {
      const bytes = columns[name].subarray(this.count, to);
      for (let at = 0; at < bytes.byteLength; )
        at += writeSync(file, new Uint8Array(bytes.buffer, bytes.byteOffset + at, bytes.byteLength - at));
    }
    this.count = to;
  }

  close(): void {
    for (const [, file] of this.#files) closeSync(file);
  }
}
