import { type ChildProcess, spawn } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { InputError } from "../../../core/errors.ts";
import { whyUnwritable } from "../../../traces/replace-file.ts";
import { throwIfInterrupted } from "../../control.ts";
import { reportsBeside } from "../report-files.ts";
import { isDiskFull } from "../run-shard.ts";
import { parseResult } from "../shard.ts";
import { type Outcome, type ShardRunner, type ShardTask, smallShards } from "./runner.ts";

export interface LocalOptions {
  readonly workers: number;
  /** The program of `kvlab worker`: the executable and the arguments before the command. */
  readonly program: readonly string[];
  /** Folder of the shards' files. */
  readonly folder: () => string;
}

/** What `kvlab worker -` prints for each shard, one line of JSON. */
export type WorkerAnswer = { readonly done: string } | { readonly failed: string };

/** Time between SIGTERM and SIGKILL. */
const killAfterMs = 5000;

/** Collecting garbage in several threads is faster if processors are idle, but takes more processor time in all. */
const oneThread = ["--single-threaded-gc"];

/**
 * Runs shards in processes of this machine: a plug-in file may replace `process.exit`, write to stdout, fill the heap or loop, which
 * ends one process, and its shard is run again.
 */
export function localRunner({ workers, program: [executable, ...words], folder }: LocalOptions): ShardRunner {
  const program = [executable, ...(workers < availableParallelism() ? [] : oneThread), ...words];
  return {
    label: workers === 1 ? "1 local worker" : `${workers} local workers`,
    shardSize: smallShards,
    async run(tasks, { signal, ended }) {
      let next = 0;
      const stop = new AbortController();
      const stopped = AbortSignal.any([signal, stop.signal]);
      const lane = async () => {
        let worker: LocalWorker | undefined;
        // The results of a shard are put in their places while the worker runs the next one.
        let collected: Promise<void> = Promise.resolve();
        try {
          while (next < tasks.length && !stopped.aborted) {
            const task = tasks[next++];
            if (worker === undefined || worker.hasEnded) worker = new LocalWorker(program, stopped);
            const [answer] = await Promise.all([runTask(worker, task, folder()), collected]);
            collected = collect(task, answer, folder(), async (outcome) => {
              if (!stopped.aborted) await ended(task, outcome);
            });
            collected.catch(() => stop.abort());
          }
          await collected;
        } catch (error) {
          stop.abort();
          throw error;
        } finally {
          await worker?.end();
          await Promise.allSettled([collected]);
        }
      };
      const lanes = await Promise.allSettled(Array.from({ length: Math.min(workers, tasks.length) }, lane));
      throwIfInterrupted(signal);
      for (const settled of lanes) if (settled.status === "rejected") throw settled.reason;
    },
    async close() {},
  };
}

/** How a worker ended a shard. `hasEnded`, `exitCode`: of its process. */
type Ended = { readonly answer: WorkerAnswer; readonly hasEnded: boolean; readonly exitCode: number | null };

const filesOf = ({ name }: ShardTask, folder: string) => {
  const output = join(folder, `${name}.result.json`);
  return { input: join(folder, `${name}.json`), output, reports: reportsBeside(output) };
};

async function runTask(worker: LocalWorker, task: ShardTask, folder: string): Promise<Ended> {
  const { input, output } = filesOf(task, folder);
  try {
    await writeFile(input, task.text);
  } catch (error) {
    const why = whyUnwritable(error);
    throw why === undefined ? error : new InputError(`${input}: cannot be written (${why})`);
  }
  const answer = await worker.run(input, output);
  return { answer, hasEnded: worker.hasEnded, exitCode: worker.exitCode };
}

/** Passes the outcome of a shard on, and removes its files. */
async function collect(
  task: ShardTask,
  { answer, hasEnded, exitCode }: Ended,
  folder: string,
  pass: (outcome: Outcome) => Promise<void>,
): Promise<void> {
  const { input, output, reports } = filesOf(task, folder);
  try {
    if ("done" in answer) return await pass({ result: parseResult(await readFile(output, "utf8"), output), reports });
    if (isDiskFull(new Error(answer.failed))) throw new InputError(answer.failed);
    // A process that ends with exit code 2 has refused its input, which it would refuse again.
    await pass({ lost: answer.failed, isFinal: exitCode === 2 ? task.count === 1 : !hasEnded });
  } finally {
    await rm(input, { force: true });
    await rm(output, { force: true });
    await rm(reports, { recursive: true, force: true });
  }
}

/** A process of `kvlab worker -`, which reads the paths of shards from its standard input. */
class LocalWorker {
  readonly #child: ChildProcess;
  readonly #ended: Promise<void>;
  #lastError = "";
  #answer: ((answer: WorkerAnswer) => void) | undefined;
  #hasEnded = false;

  constructor([executable, ...before]: readonly string[], signal: AbortSignal) {
    const { INIT_CWD: _, KVLAB_LIVE: __, KVLAB_PROGRESS: ___, FORCE_COLOR: ____, ...env } = process.env;
    const child = spawn(executable, [...before, "worker", "-"], { env, stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    child.stdin!.on("error", () => {});
    createInterface({ input: child.stdout! }).on("line", (line) => this.#receive(line));
    createInterface({ input: child.stderr! }).on("line", (line) => {
      if (line.trim() !== "") this.#lastError = line.trim().replace(/^kvlab: /, "");
    });
    const stop = () => this.#stop();
    this.#ended = new Promise((resolve) => {
      const end = (what: string) => {
        if (this.#hasEnded) return;
        this.#hasEnded = true;
        signal.removeEventListener("abort", stop);
        this.#settle({ failed: this.#lastError || what });
        resolve();
      };
      child.on("error", (error) => end(error.message));
      child.on("close", (code, by) =>
        end(by ? `its worker was ended by ${by}` : `its worker exited with code ${code}`),
      );
    });
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  get exitCode(): number | null {
    return this.#child.exitCode;
  }

  run(input: string, output: string): Promise<WorkerAnswer> {
    if (this.#hasEnded) return Promise.resolve({ failed: this.#lastError || "its worker ended" });
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#child.stdin!.write(`${JSON.stringify([input, output])}\n`);
    });
  }

  /** Ends the process, after its shard unless it was signalled to stop. */
  async end(): Promise<void> {
    this.#child.stdin!.end();
    await this.#ended;
  }

  #receive(line: string): void {
    try {
      this.#settle(JSON.parse(line));
    } catch {
      this.#settle({ failed: `its worker printed ${JSON.stringify(line.slice(0, 100))}` });
    }
  }

  #settle(answer: WorkerAnswer): void {
    const settle = this.#answer;
    this.#answer = undefined;
    settle?.(answer);
  }

  #stop(): void {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), killAfterMs);
    this.#child.once("close", () => clearTimeout(timer));
  }
}
