import { type ChildProcess, spawn } from "node:child_process";
import { readdir, rm, stat } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { makeFolder } from "../../core/make-folder.ts";
import type { Job, JobCommand } from "../api.ts";
import { isChildName } from "./inside.ts";
import { commandLineOf, type JobCommandLine, parseJob, type Sources } from "./job-words.ts";
import { isAlive, removeStaleLiveRuns } from "./live-format.ts";
import { Refusal } from "./refusal.ts";

export interface JobsOptions {
  /** How this program is started: the executable and the arguments before the command. */
  readonly program: readonly string[];
  /** The folder of saved runs. */
  readonly folder: string;
  /** The current choices. */
  readonly sources: () => Promise<Sources>;
  /** Saves a run of a staging folder at its place. */
  readonly keep: (saved: string, id: string) => Promise<void>;
  /** Time between SIGINT and SIGKILL. */
  readonly killAfterMs?: number;
}

interface Entry {
  readonly id: number;
  readonly args: readonly string[];
  readonly command: string;
  state: Job["state"];
  progress: number | null;
  lastOutput: string;
  /** The saved runs, and the file of the report that each was saved with. */
  readonly runs: Map<string, number>;
  child: ChildProcess | undefined;
  isCancelled: boolean;
}

const atOnce = 2;
const mostWaiting = 20;
const mostKnown = 50;
/** Interval between checks for complete runs. */
const lookMs = 500;
const maxOutputLength = 500;

/** Staging folder of a job until its runs are complete; names the process that removes it. */
const stagingName = (id: number) => `.job-${id}.${hostname()}.${process.pid}.tmp`;
const staged = /^\.job-\d+\.(.+)\.(\d+)\.tmp$/;

/**
 * Runs that the page has started: each is this program in a separate process, which saves to a hidden staging folder beside
 * the other runs. Complete runs are linked from there, again if the program adds to the report of a run.
 */
export class Jobs {
  /** Called when `list` has changed. */
  onChange: () => void = () => {};
  readonly #options: JobsOptions;
  readonly #entries: Entry[] = [];
  readonly #running = new Set<Promise<void>>();
  #collected: Promise<void> = Promise.resolve();
  #lastId = 0;
  #isClosed = false;

  constructor(options: JobsOptions) {
    this.#options = options;
  }

  /** The newest first. */
  list(): Job[] {
    return this.#entries.map(shown).reverse();
  }

  /** The command line of a request. @throws Refusal if the request is invalid */
  async command(body: unknown): Promise<JobCommand> {
    const { command } = await this.#commandLineOf(body);
    return { command };
  }

  /** @throws Refusal if the request is invalid or too many jobs are waiting */
  async submit(body: unknown): Promise<Job> {
    const { words, command } = await this.#commandLineOf(body);
    if (this.#isClosed) throw new Refusal(503, "the dashboard is shutting down");
    const same = this.#entries.find((entry) => entry.command === command && !isOver(entry));
    if (same) throw new Refusal(409, `job ${same.id} is ${same.state} with this command`);
    if (this.#count("waiting") >= mostWaiting)
      throw new Refusal(429, `${mostWaiting} jobs are waiting, which is the limit`);
    const entry: Entry = {
      ...{ id: ++this.#lastId, args: words, command, state: "waiting", progress: null, lastOutput: "" },
      ...{ runs: new Map(), child: undefined, isCancelled: false },
    };
    this.#entries.push(entry);
    this.#dropOldest();
    this.#startNext();
    this.onChange();
    return shown(entry);
  }

  /** Interrupts the program; saved runs stay. @throws Refusal if there is no such job */
  cancel(id: number): Job {
    const entry = this.#entries.find((each) => each.id === id);
    if (!entry) throw new Refusal(404, `there is no job ${id}`);
    this.#cancel(entry);
    this.onChange();
    return shown(entry);
  }

  /** Cancels all jobs and waits until every program has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const entry of this.#entries) this.#cancel(entry);
    await Promise.all(this.#running);
  }

  async #commandLineOf(body: unknown): Promise<JobCommandLine> {
    const sources = await this.#options.sources();
    return commandLineOf(parseJob(body, sources), sources);
  }

  /** Removes the staging folders of killed dashboards. */
  async clearLeft(): Promise<void> {
    const { folder } = this.#options;
    for (const name of await readdir(folder).catch(() => [])) {
      const [, host, pid] = staged.exec(name) ?? [];
      if (host !== undefined && !isAlive({ host, pid: Number(pid) }))
        await rm(join(folder, name), { recursive: true, force: true }).catch(() => {});
    }
  }

  #cancel(entry: Entry): void {
    if (entry.state === "waiting") entry.state = "cancelled";
    if (entry.state !== "running" || entry.isCancelled) return;
    entry.isCancelled = true;
    const { child } = entry;
    if (!child) return;
    child.kill("SIGINT");
    const timer = setTimeout(() => child.kill("SIGKILL"), this.#options.killAfterMs ?? 5000);
    child.once("close", () => clearTimeout(timer));
  }

  #count(state: Job["state"]): number {
    return this.#entries.filter((entry) => entry.state === state).length;
  }

  #dropOldest(): void {
    while (this.#entries.length > mostKnown && this.#entries.some(isOver))
      this.#entries.splice(this.#entries.findIndex(isOver), 1);
  }

  #startNext(): void {
    while (!this.#isClosed && this.#running.size < atOnce) {
      const next = this.#entries.find(({ state }) => state === "waiting");
      if (!next) return;
      next.state = "running";
      const running = this.#run(next).finally(() => {
        this.#running.delete(running);
        this.#startNext();
        this.onChange();
      });
      this.#running.add(running);
    }
  }

  async #run(entry: Entry): Promise<void> {
    const staging = join(this.#options.folder, stagingName(entry.id));
    let code: number | null = null;
    try {
      makeFolder(staging);
      if (!entry.isCancelled) code = await this.#runIn(staging, entry);
    } catch (error) {
      entry.lastOutput = lastLine(error instanceof Error ? error.message : String(error));
    }
    await rm(staging, { recursive: true, force: true }).catch(() => {});
    await removeStaleLiveRuns(this.#options.folder);
    entry.state = code === 0 ? "done" : entry.isCancelled ? "cancelled" : "failed";
    if (code === 0) Object.assign(entry, { progress: 1, lastOutput: "" });
  }

  /** The exit code; null if a signal ended it. */
  async #runIn(staging: string, entry: Entry): Promise<number | null> {
    const [executable, ...before] = this.#options.program;
    const { INIT_CWD: _, FORCE_COLOR: __, ...env } = process.env;
    const child = spawn(executable, [...before, ...entry.args], {
      cwd: staging,
      env: { ...env, KVLAB_PROGRESS: "ipc", KVLAB_LIVE: this.#options.folder },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    entry.child = child;
    child.on("message", (message) => this.#receive(entry, message));
    this.#listen(entry, child);
    const ended = new Promise<number | null>((resolve, reject) => {
      child.on("error", reject);
      child.on("close", resolve);
    });
    const collect = () => this.#collect(join(staging, "runs"), entry);
    const timer = setInterval(() => collect().catch(() => {}), lookMs);
    try {
      const code = await ended;
      await collect();
      return code;
    } finally {
      clearInterval(timer);
      entry.child = undefined;
    }
  }

  /** Progress messages. A user's policy can send anything; a message that is not an object is ignored. */
  #receive(entry: Entry, message: unknown): void {
    if (typeof message !== "object" || message === null) return;
    const { doing, share } = message as { doing?: unknown; share?: unknown };
    if (typeof doing === "string") entry.lastOutput = lastLine(doing);
    entry.progress = typeof share === "number" ? share : null;
    this.onChange();
  }

  /** Stores the beginning of the last line of stderr. */
  #listen(entry: Entry, { stdout, stderr }: ChildProcess): void {
    stdout!.resume();
    let line = "";
    stderr!.setEncoding("utf8").on("data", (text: string) => {
      const lines = (line + text).split("\n");
      line = lines.at(-1)!.slice(0, maxOutputLength);
      const output = lines.findLast((each) => each.trim() !== "");
      if (output !== undefined) entry.lastOutput = output.trim().slice(0, maxOutputLength);
      this.onChange();
    });
  }

  /** Saves new complete runs at their place, one at a time: two jobs may have produced the same run. */
  #collect(saved: string, entry: Entry): Promise<void> {
    const collected = this.#collected.then(() => this.#keepNew(saved, entry));
    this.#collected = collected.catch(() => {});
    return collected;
  }

  async #keepNew(saved: string, entry: Entry): Promise<void> {
    const names = await readdir(saved).catch(() => []);
    for (const id of names.filter(isChildName)) {
      const { ino } = await stat(join(saved, id, "run.json"));
      if (entry.runs.get(id) === ino) continue;
      await this.#options.keep(join(saved, id), id);
      entry.runs.set(id, ino);
      this.onChange();
    }
  }
}

const isOver = ({ state }: Entry) => state !== "waiting" && state !== "running";

const shown = ({ id, command, state, progress, lastOutput, runs, child }: Entry): Job => ({
  ...{ id, command, state, progress, lastOutput, runs: [...runs.keys()], pid: child?.pid ?? null },
});

const lastLine = (text: string) => (text.trimEnd().split("\n").at(-1) ?? "").trim().slice(0, maxOutputLength);
