import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { InputError } from "../../../core/errors.ts";
import { throwIfInterrupted } from "../../control.ts";
import { quoted } from "../../output/command-line.ts";
import { reportsBeside } from "../report-files.ts";
import { parseResult } from "../shard.ts";
import type { Outcome, ShardRunner } from "./runner.ts";

export interface SlurmOptions {
  /** The program of `kvlab worker`, at the same path on every node. */
  readonly program: readonly string[];
  /** Folder of the shards' files, which all nodes share. */
  readonly folder: () => string;
  /** Options of sbatch. */
  readonly sbatch: readonly string[];
}

/** Elements of an array, unless the user chose the size of a shard. Slurm's own default limit is 1,001. */
const elements = 100;
const mostElements = 1000;
const pollMs = 1000;
/** An element that has left the queue without a result this many polls ago has none: its file may become visible late. */
const gracePolls = 3;

const program = promisify(execFile);

/** Runs shards as job arrays: element k reads `N.k.json` in the shared folder and writes `N.k.result.json`. @throws InputError if there is no Slurm */
export async function slurmRunner({ program: kvlab, folder, sbatch }: SlurmOptions): Promise<ShardRunner> {
  await slurm("sbatch", ["--version"]);
  let arrays = 0;
  return {
    label: "slurm",
    shardSize: (count) => Math.ceil(count / elements),
    async run(tasks, { signal, ended }) {
      for (let from = 0; from < tasks.length; from += mostElements) {
        const chosen = tasks.slice(from, from + mostElements);
        const name = `array-${arrays++}`;
        const path = (k: number | string, end: string) => join(folder(), `${name}.${k}.${end}`);
        for (const [k, { text }] of chosen.entries()) await writeFile(path(k, "json"), text);
        const begin = [...kvlab, "worker", join(folder(), `${name}.`)].map(quoted).join(" ");
        const command = `${begin}"$SLURM_ARRAY_TASK_ID".json`;
        const script = path("all", "sh");
        await writeFile(script, scriptOf(command, chosen.length, path("%a", "log")));
        const job = await submit(script, sbatch);
        try {
          await collect(job, chosen.length, path, signal, (k, outcome) => ended(chosen[k], outcome));
        } catch (error) {
          await slurm("scancel", [job]).catch(() => {});
          throwIfInterrupted(signal);
          throw error;
        }
      }
    },
    async close() {},
  };
}

const scriptOf = (command: string, count: number, log: string) => `#!/bin/sh
#SBATCH --job-name=kvlab-sweep
#SBATCH --array=0-${count - 1}
#SBATCH --output=${log}
#SBATCH --ntasks=1
exec ${command}
`;

/** Submits the array; returns its job id. */
async function submit(script: string, options: readonly string[]): Promise<string> {
  const printed = await slurm("sbatch", ["--parsable", ...options, script]);
  const [, job] = /^(\d+)(;.*)?$/m.exec(printed.trim()) ?? [];
  if (job === undefined) throw new InputError(`sbatch printed ${JSON.stringify(printed)}, expected the id of a job`);
  return job;
}

/** Collects results until every element has ended. `path` returns the path of an element's file. */
async function collect(
  job: string,
  count: number,
  path: (k: number, end: string) => string,
  signal: AbortSignal,
  ended: (k: number, outcome: Outcome) => Promise<void>,
): Promise<void> {
  const open = new Map(Array.from({ length: count }, (_, k) => [k, 0]));
  while (open.size > 0) {
    throwIfInterrupted(signal);
    const queued = await queuedElements(job);
    for (const [k, missed] of open) {
      const output = path(k, "result.json");
      if (existsSync(output)) {
        open.delete(k);
        const reports = reportsBeside(output);
        await ended(k, { result: parseResult(await readFile(output, "utf8"), output), reports });
        await rm(reports, { recursive: true, force: true });
        for (const end of ["json", "result.json", "log"]) await rm(path(k, end), { force: true });
      } else if (queued !== undefined && !queued.has(k)) {
        open.set(k, missed + 1);
        if (missed < gracePolls) continue;
        open.delete(k);
        await ended(k, {
          lost: await lastLine(path(k, "log"), `element ${job}_${k} of the array ended without a result`),
        });
      } else open.set(k, 0);
    }
    // Rejects only if the signal aborts first.
    if (open.size > 0) await sleep(pollMs, undefined, { signal }).catch(() => {});
  }
}

/** Elements of the job that are waiting or running; undefined if Slurm does not answer. */
async function queuedElements(job: string): Promise<Set<number> | undefined> {
  try {
    const printed = await program("squeue", ["--noheader", "--array", "--jobs", job, "--format", "%K"]);
    return new Set(printed.stdout.split("\n").filter(Boolean).map(Number));
  } catch (error) {
    // Slurm drops a job from its list some minutes after its end.
    return /Invalid job id/i.test(String((error as { stderr?: unknown }).stderr)) ? new Set() : undefined;
  }
}

/** The end of an element's log, where it states why it failed. */
async function lastLine(log: string, otherwise: string): Promise<string> {
  const lines = (await readFile(log, "utf8").catch(() => "")).trim().split("\n");
  return (
    lines
      .at(-1)
      ?.replace(/^kvlab: /, "")
      .slice(0, 500) || otherwise
  );
}

/** The output of a program of Slurm. @throws InputError with its message */
async function slurm(name: string, args: readonly string[]): Promise<string> {
  try {
    return (await program(name, args)).stdout;
  } catch (error) {
    const { code, stderr } = error as { code?: unknown; stderr?: string };
    const why =
      code === "ENOENT" ? "there is no such program; --on slurm needs a cluster's login node" : stderr?.trim();
    throw new InputError(`${name}: ${why || (error as Error).message}`.replace(/\s*\n\s*/g, " "));
  }
}
