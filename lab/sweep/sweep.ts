import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { counted } from "../../core/counted.ts";
import { InputError } from "../../core/errors.ts";
import { type Control, counting, Interrupted, throwIfInterrupted, yieldToEvents } from "../control.ts";
import { programOfKvlab, version } from "../package.ts";
import { pluginHost } from "../user-plugins/host.ts";
import type { Scalar } from "./axes.ts";
import { keyOf, readingKey, resolve } from "./configuration.ts";
import { FileHashes, type InputFile } from "./input-files.ts";
import type { ResolvedOptions, SweepConfiguration } from "./options.ts";
import { writeResultTable } from "./result-table.ts";
import { Results, sweepFile, tableFile } from "./results.ts";
import { localRunner } from "./runners/local.ts";
import type { Outcome, ShardRunner, ShardTask } from "./runners/runner.ts";
import type { Shard } from "./shard.ts";

export interface SweepOptions extends Control {
  /** Folder of the results; an earlier sweep in it is resumed. */
  readonly out: string;
  /** `local` (default), `slurm`, or the address of a Redis: `redis://host:6379`. */
  readonly on?: string;
  /** Local worker processes; by default as many as processors. */
  readonly workers?: number;
  /** Runs of a configuration whose worker ended without a result, after the first. */
  readonly retries?: number;
  /** Configurations in a shard. */
  readonly shardSize?: number;
  /** Slurm: options of sbatch, such as `--partition=long`. */
  readonly sbatch?: readonly string[];
}

/** A configuration without a result. */
export interface FailedConfiguration {
  readonly key: string;
  readonly varied: Readonly<Record<string, Scalar>>;
  readonly error: string;
}

/** The document that `kvlab sweep --json` prints: schema sweep/1. */
export interface SweepReport {
  readonly schema: "sweep/1";
  readonly kvlab: string;
  readonly folder: string;
  /** Rows of the table: configurations that were listed. */
  readonly configurations: number;
  /** Different ones. */
  readonly distinct: number;
  /** Of those: run by this call, and found in the folder. */
  readonly run: number;
  readonly reused: number;
  readonly failed: readonly FailedConfiguration[];
  /** A Parquet file with a row for each configuration that has a result. */
  readonly table: string;
}

/** A configuration and the name of its result. */
interface Entry {
  readonly key: string;
  readonly trace: readonly InputFile[];
  readonly inputs: readonly InputFile[];
  readonly options: ResolvedOptions;
  readonly varied: Readonly<Record<string, Scalar>>;
}

const defaultRetries = 3;

/** What a sweep would run. @throws InputError */
export async function planSweep(configurations: readonly SweepConfiguration[], { signal, ...control }: Control = {}) {
  if (configurations.length === 0) throw new InputError("a sweep has no configurations, expected at least one");
  const hashes = new FileHashes();
  const advance = counting(control, "checking configurations", configurations.length);
  const entries: Entry[] = [];
  for (const [i, { trace = [], options, varied = {} }] of configurations.entries()) {
    if (i % 32 === 0) await yieldToEvents(signal);
    const resolved = await resolve(options);
    const traceFiles = await hashes.ofTrace(typeof trace === "string" ? [trace] : trace);
    const inputs = await hashes.ofOptions(resolved);
    entries.push({ key: keyOf(resolved, traceFiles, inputs), trace: traceFiles, inputs, options: resolved, varied });
    advance(1);
  }
  return { entries, distinct: new Map(entries.map((entry) => [entry.key, entry])) };
}

/**
 * Runs every configuration once, in shards: on this machine, on a Slurm cluster, or by workers that share a Redis. Results that the
 * folder has are not run again. If it is aborted, complete results stay.
 *
 * @throws InputError if an option is invalid, or the folder cannot be written; Interrupted
 */
export async function sweep(
  configurations: readonly SweepConfiguration[],
  options: SweepOptions,
): Promise<SweepReport> {
  return await pluginHost().withoutPluginCode(() => sweepAll(configurations, options));
}

async function sweepAll(configurations: readonly SweepConfiguration[], options: SweepOptions): Promise<SweepReport> {
  const { out, signal } = options;
  const { entries, distinct } = await planSweep(configurations, options);
  let results: Results | undefined;
  const runner = await runnerOf(options, () => results!.shardFolder());
  try {
    results = await Results.open(out);
    await results.writeFile(sweepFile, (path) => writeFile(path, listOf(entries)));
    const present = results.keys();
    const missing = [...distinct.values()].filter(({ key }) => !present.has(key));
    const failed = await runAll(missing, distinct.size, runner, results, options);
    const complete = results.keys();
    const rows = entries.filter(({ key }) => complete.has(key));
    options.progress?.({ doing: "writing the table", done: 0 });
    const texts = (key: string) => results!.text(key);
    const table = await results.writeFile(tableFile, (path) => writeResultTable({ path, signal }, rows, texts));
    return {
      ...{ schema: "sweep/1", kvlab: version, folder: out, configurations: entries.length, distinct: distinct.size },
      ...{ run: missing.length - failed.length, reused: distinct.size - missing.length, failed, table },
    };
  } finally {
    await runner.close();
    await results?.close();
  }
}

/** `folder` returns the folder of the shards' files. */
async function runnerOf({ on = "local", ...options }: SweepOptions, folder: () => string): Promise<ShardRunner> {
  const { workers = availableParallelism() } = options;
  const program = programOfKvlab();
  if (on === "local") return localRunner({ workers, program, folder });
  if (on === "slurm") {
    const { slurmRunner } = await import("./runners/slurm.ts");
    return await slurmRunner({ program, folder, sbatch: options.sbatch ?? [] });
  }
  const { redisRunner } = await import("./runners/redis.ts");
  return await redisRunner(on, options.note);
}

/** Lost shards run again in shards smaller by this factor. */
const smaller = 8;

/**
 * Runs the configurations; those whose shard was lost run again in ever smaller shards, and alone the last time, so that one that
 * ends its worker does not take others with it. Returns those that failed.
 */
async function runAll(
  missing: readonly Entry[],
  total: number,
  runner: ShardRunner,
  results: Results,
  { retries = defaultRetries, shardSize, signal, note, ...control }: SweepOptions,
): Promise<FailedConfiguration[]> {
  const failed: FailedConfiguration[] = [];
  const byKey = new Map(missing.map((entry) => [entry.key, entry]));
  const advance = counting(control, `running on ${runner.label}`, total);
  advance(total - missing.length);
  let left = missing.length;
  const fail = (key: string, error: string) => {
    failed.push({ key, varied: byKey.get(key)!.varied, error });
    left--;
    advance(1);
  };
  const firstSize = shardSize ?? runner.shardSize(missing.length);
  let pending = missing;
  for (let attempt = 0; pending.length > 0; attempt++) {
    const isLast = attempt > 0 && attempt >= retries;
    const size = isLast ? 1 : Math.ceil(firstSize / smaller ** attempt);
    const tasks = tasksOf(pending, size, attempt);
    const lost: Entry[] = [];
    const ended = async ({ entries }: Task, outcome: Outcome) => {
      if ("lost" in outcome) {
        for (const entry of entries)
          if (outcome.isFinal || attempt >= retries) fail(entry.key, outcome.lost);
          else lost.push(entry);
        return;
      }
      const { result, reports } = outcome;
      await results.add({ ...result, results: result.results.filter(({ key }) => byKey.has(key)) }, reports);
      const known = new Set(result.results.map(({ key }) => key));
      for (const each of result.results) if ("error" in each) fail(each.key, each.error);
      const done = result.results.filter((each) => "wallMs" in each).length;
      left -= done;
      advance(done);
      lost.push(...entries.filter(({ key }) => !known.has(key)));
    };
    try {
      const run = { signal: signal ?? new AbortController().signal, ended, note: note ?? (() => {}) };
      await runner.run(tasks, run);
      throwIfInterrupted(signal);
    } catch (error) {
      if (!(error instanceof Interrupted)) throw error;
      throw new Interrupted(
        ` after ${total - left - failed.length} of ${counted(total, "configuration")}; the same command resumes it`,
      );
    }
    pending = lost;
  }
  return failed;
}

interface Task extends ShardTask {
  readonly entries: readonly Entry[];
}

/** Configurations with the same trace, in shards of at most `size`. */
function tasksOf(entries: readonly Entry[], size: number, attempt: number): Task[] {
  const byTrace = new Map<string, Entry[]>();
  for (const entry of entries) {
    const trace = JSON.stringify([entry.trace, readingKey(entry.options)]);
    byTrace.set(trace, [...(byTrace.get(trace) ?? []), entry]);
  }
  const tasks: Task[] = [];
  for (const all of byTrace.values())
    for (let from = 0; from < all.length; from += size) {
      const chosen = all.slice(from, from + size);
      const text = shardText(chosen);
      const hash = createHash("sha256").update(text).digest("hex").slice(0, 16);
      tasks.push({ name: `shard-${hash}-${attempt}`, text, count: chosen.length, entries: chosen });
    }
  return tasks;
}

function shardText(entries: readonly Entry[]): string {
  const inputs = new Map(entries.flatMap((entry) => entry.inputs).map((file) => [file.path, file]));
  const shard: Shard = {
    ...{ schema: "shard/1", kvlab: version, folder: process.cwd(), trace: [...entries[0].trace] },
    inputs: [...inputs.values()],
    configurations: entries.map(({ key, options }) => ({ key, options })),
  };
  return JSON.stringify(shard);
}

/** The content of sweep.json: which results belong to the sweep. */
function listOf(entries: readonly Entry[]): string {
  const configurations = entries.map(({ key, varied }) => ({ key, ...varied }));
  return `${JSON.stringify({ schema: "sweep/1", kvlab: version, configurations }, undefined, 1)}\n`;
}
