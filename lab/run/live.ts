import { closeSync, openSync, renameSync, rmdirSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { dirname, join, resolve } from "node:path";
import { cacheReport } from "../../core/cache/report.ts";
import { InputError } from "../../core/errors.ts";
import type { EventLog } from "../../core/log/event-log.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { countNames, levelNames, type TimeSeries } from "../../core/serving/time-series.ts";
import type { Nanos } from "../../core/trace/trace.ts";
import {
  columnFile,
  eventColumns,
  type LiveHeader,
  type LiveNow,
  type LiveSeries,
  liveFiles,
  liveFolder,
  mostLiveEvents,
  removeStaleLiveRuns,
} from "../../viz/server/live-format.ts";
import { type LiveGoals, LiveRequests } from "./live-requests.ts";
import { refusalsOf, sumOf, type Watched } from "./served-result.ts";

/** Interval between two updates. */
const everyMs = 300;
/** Most intervals of a series. */
const mostIntervals = 512;
/** Live folders of this process, which are removed when the process exits. */
const open = new Set<LiveRun>();
let isRegistered = false;

function closeAll(): void {
  for (const run of open) run.close();
}

/**
 * Shows a run to a dashboard while it is in progress, through files (viz/server/live-format.ts): a few times a second, between the
 * run's steps. The run itself is not affected.
 */
export class LiveRun {
  readonly #runs: string;
  readonly #folder: string;
  /** The topmost folder that was created for the live folder. */
  readonly #made: string | undefined;
  readonly #log: LogFiles;
  readonly #requests: LiveRequests;
  readonly #goals: LiveGoals;
  readonly #warn: (message: string) => void;
  #state: LiveNow["state"] = "running";
  #watched: Watched | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Shows a run among those in `runs`. @throws InputError if that folder cannot be written */
  static async open(
    runs: string,
    header: Omit<LiveHeader, "schema" | "pid" | "host">,
    warn: (message: string) => void,
    goals: LiveGoals = { warmup: 0, slo: undefined },
  ): Promise<LiveRun> {
    await removeStaleLiveRuns(runs);
    try {
      return new LiveRun(
        resolve(runs),
        { schema: "live/1", pid: process.pid, host: hostname(), ...header },
        warn,
        goals,
      );
    } catch (error) {
      if (error instanceof InputError) throw error;
      throw new InputError(
        `--live: ${join(runs, liveFolder)} cannot be written (${(error as NodeJS.ErrnoException).code})`,
      );
    }
  }

  private constructor(runs: string, header: LiveHeader, warn: (message: string) => void, goals: LiveGoals) {
    this.#goals = goals;
    this.#warn = warn;
    this.#runs = runs;
    this.#folder = join(runs, liveFolder, String(process.pid));
    const temporary = join(runs, liveFolder, `.${process.pid}.tmp`);
    for (const folder of [temporary, this.#folder]) rmSync(folder, { recursive: true, force: true });
    this.#made = makeFolder(temporary, `--live: ${join(runs, liveFolder)}`);
    writeFileSync(join(temporary, liveFiles.header), JSON.stringify(header));
    this.#log = new LogFiles(temporary);
    this.#requests = new LiveRequests(temporary, goals);
    renameSync(temporary, this.#folder);
    if (!isRegistered) process.on("exit", closeAll);
    isRegistered = true;
    open.add(this);
  }

  /** Sets the run to show. */
  watch(run: Watched): void {
    this.#watched = run;
    this.#publish();
    this.#timer ??= setInterval(() => this.#publish(), everyMs).unref();
  }

  /** Reports that the run has ended and is being saved. */
  saving(): void {
    this.#state = "saving";
    this.#publish();
    clearInterval(this.#timer);
  }

  /** Removes the live folder. */
  close(): void {
    if (!open.delete(this)) return;
    clearInterval(this.#timer);
    this.#log.close();
    this.#requests.close();
    rmSync(this.#folder, { recursive: true, force: true });
    removeIfEmpty(dirname(this.#folder));
    if (this.#made !== undefined && this.#made.length <= this.#runs.length) removeIfEmpty(this.#runs);
  }

  #publish(): void {
    if (!this.#watched || !open.has(this)) return;
    try {
      this.#write(this.#watched);
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException;
      if (syscall === undefined) throw error;
      this.#warn(`--live: ${this.#folder} cannot be written (${code}); the run continues`);
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
    if (run.arrivals) this.#requests.write(run.arrivals);
    this.#replace(liveFiles.now, {
      ...{ state: this.#state, ...metricsOf(run), throughput: series ? throughputOf(series, over) : null },
      ...(series && this.#serviceOf(run, (nowNs - series.startNs) / 1e9)),
      ...{ events: log ? log.count : null, eventsWritten: this.#log.count },
    } satisfies LiveNow);
  }

  /** SLO, refusals and replicas over the time since the warm-up. */
  #serviceOf(run: Watched, elapsedS: number): Pick<LiveNow, "slo" | "refusals" | "replicas"> {
    const { ended, attained } = this.#requests;
    const slo = {
      attained: ended === 0 ? 0 : attained / ended,
      goodputRequestsPerS: elapsedS > 0 ? attained / elapsedS : 0,
    };
    return {
      ...(this.#goals.slo && { slo }),
      refusals: refusalsOf(run),
      replicas: run.replicas.map(({ cache: { counters }, busyNs = 0 }) => ({
        requests: counters.lookups,
        hitRatio: counters.lookupTokens === 0 ? null : counters.hitTokens / counters.lookupTokens,
        utilisation: elapsedS > 0 ? Math.min(1, busyNs / 1e9 / elapsedS) : 0,
      })),
    };
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
    // Another process has files in the folder.
  }
}

/** Metrics of the run so far, over all replicas. */
function metricsOf({
  done,
  nowNs,
  replicas,
}: Watched): Omit<LiveNow, "state" | "throughput" | "events" | "eventsWritten"> {
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

/** A copy of the series, completed with the levels since their last change. */
function seriesSoFar(series: TimeSeries, { replicas }: Watched, nowNs: Nanos): TimeSeries {
  const copy = series.copy();
  for (const replica of replicas) replica.addLevelsTo?.(copy, nowNs);
  return copy;
}

/** Number of complete intervals. A series may extend beyond now, because steps that are executed at once end later. */
const intervalsOver = ({ startNs, intervalNs }: TimeSeries, nowNs: Nanos) =>
  Math.max(0, Math.floor((nowNs - startNs) / intervalNs));

/** Throughput over the first `count` intervals. */
function throughputOf({ counts, intervalNs }: TimeSeries, count: number): LiveNow["throughput"] {
  const sum = (values: Float64Array) => values.subarray(0, count).reduce((total, value) => total + value, 0);
  const perS = (values: Float64Array) => (count === 0 ? 0 : sum(values) / ((count * intervalNs) / 1e9));
  return { requestsPerS: perS(counts.finished), outputTokensPerS: perS(counts.generatedTokens) };
}

/** The first `count` intervals. If there are many, neighbours are merged, and an incomplete group at the end is dropped. */
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

/** Files of the event log's columns, which grow with the log. */
class LogFiles {
  count = 0;
  readonly #files: readonly (readonly [name: (typeof eventColumns)[number], file: number])[];

  constructor(folder: string) {
    this.#files = eventColumns.map((name) => [name, openSync(join(folder, columnFile(name)), "w")]);
  }

  /** Appends the new events of the log. */
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
