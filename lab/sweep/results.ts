import { existsSync, readdirSync, readFileSync, renameSync } from "node:fs";
import { appendFile, mkdir, open, readdir, readFile, rename, rm, truncate, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { unfinished } from "../../core/unfinished.ts";
import { whyUnwritable } from "../../traces/replace-file.ts";
import { checkWritable, isAlive } from "../output/run-directory.ts";
import { reportFile } from "./report-files.ts";
import type { ShardResult } from "./shard.ts";

/** Files of a sweep's folder, beside one folder for each result. */
export const sweepFile = "sweep.json";
export const tableFile = "sweep.parquet";
const timesFile = "times.jsonl";

/** Temporary files and folders of this process, and of others that may have been killed. */
const suffix = () => `.${hostname()}.${process.pid}.tmp`;
const temporaryName = /^\.(.+)\.(\d+)\.tmp$/;

/** The folder of a sweep: a folder for each result, named by its key, that appears only when it is complete. */
export class Results {
  readonly #path: string;
  readonly #folder: string;
  #shards: string | undefined;

  private constructor(path: string) {
    this.#path = path;
    this.#folder = resolve(path);
  }

  /**
   * Opens a folder that does not exist, is empty, or is that of a sweep, and removes what killed processes on this machine left.
   *
   * @throws InputError if it contains anything else or cannot be written
   */
  static async open(path: string): Promise<Results> {
    const results = new Results(path);
    if (results.#folder === process.cwd())
      throw new InputError(`${path}: is the current directory, expected one of its own`);
    await checkWritable(path, path);
    const names: string[] = await readdir(results.#folder).catch(() => []);
    if (names.some((name) => !temporaryName.test(name)) && !names.includes(sweepFile))
      throw new InputError(
        `${path}: has ${names[0]} in it and is not a sweep; expected a new folder, or that of a sweep`,
      );
    makeFolder(results.#folder, path);
    await results.#writing(() => results.#removeLeft(names));
    return results;
  }

  /** Keys of the results that are complete. */
  keys(): Set<string> {
    const isResult = (name: string) => !name.startsWith(".") && existsSync(this.#file(name));
    return new Set(readdirSync(this.#folder).filter(isResult));
  }

  /** The text of a result. */
  text(key: string): string {
    return readFileSync(this.#file(key), "utf8");
  }

  /**
   * Adds the results of a shard; those without a report are moved from the folder `reports`, which is on the same disk.
   *
   * @throws InputError if the disk is full; each result is then whole or absent
   */
  async add({ host, results }: ShardResult, reports = ""): Promise<void> {
    const done = results.filter((result) => "wallMs" in result);
    await this.#writing(async () => {
      const added = await Promise.allSettled(
        done.map(async ({ key, report }) => {
          if (report === undefined) this.#move(join(reports, key), key);
          else await this.#write(key, report);
        }),
      );
      for (const settled of added) if (settled.status === "rejected") throw settled.reason;
      const lines = done.map(({ key, wallMs }) => `${JSON.stringify({ key, wallMs, host })}\n`);
      if (lines.length > 0) await appendFile(join(this.#folder, timesFile), lines.join(""));
    });
  }

  /** Writes a file of the sweep, which has its name only when it is complete. @throws InputError */
  async writeFile(name: typeof sweepFile | typeof tableFile, write: (path: string) => Promise<void>): Promise<string> {
    const temporary = join(this.#folder, `.${name}${suffix()}`);
    const path = join(this.#path, name);
    await this.#temporarily(temporary, async () => {
      await write(temporary);
      await synced(temporary);
      await rename(temporary, path);
    });
    return path;
  }

  /** The folder of the shards' files, on the disk of the results. */
  shardFolder(): string {
    if (this.#shards === undefined) {
      this.#shards = join(this.#folder, `.shards${suffix()}`);
      unfinished.add(this.#shards);
      makeFolder(this.#shards, this.#path);
    }
    return this.#shards;
  }

  /** Removes the shards' files. */
  async close(): Promise<void> {
    if (this.#shards === undefined) return;
    await rm(this.#shards, { recursive: true, force: true });
    unfinished.delete(this.#shards);
    this.#shards = undefined;
  }

  #file(key: string): string {
    return join(this.#folder, key, reportFile);
  }

  async #write(key: string, report: string): Promise<void> {
    const temporary = join(this.#folder, `.${key}${suffix()}`);
    await this.#temporarily(temporary, async () => {
      await mkdir(temporary, { recursive: true });
      await writeFile(join(temporary, reportFile), report, { flush: true });
      this.#move(temporary, key);
    });
  }

  #move(folder: string, key: string): void {
    try {
      renameSync(folder, join(this.#folder, key));
    } catch (error) {
      // Another process has added the same result.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
    }
  }

  async #temporarily(path: string, act: () => Promise<void>): Promise<void> {
    unfinished.add(path);
    try {
      await this.#writing(act);
    } finally {
      await rm(path, { recursive: true, force: true });
      unfinished.delete(path);
    }
  }

  async #writing(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      const why = whyUnwritable(error);
      if (why === undefined) throw error;
      throw new InputError(`${this.#path}: cannot be written (${why})`);
    }
  }

  /** Also the beginning of a line, which a full disk can leave. */
  async #removeLeft(names: readonly string[]): Promise<void> {
    if (names.includes(timesFile)) {
      const times = await readFile(join(this.#folder, timesFile));
      await truncate(join(this.#folder, timesFile), times.lastIndexOf("\n") + 1);
    }
    for (const name of names) {
      const path = join(this.#folder, name);
      const [, owner, pid] = temporaryName.exec(name) ?? [];
      if (owner?.endsWith(`.${hostname()}`) && !isAlive(Number(pid))) await rm(path, { recursive: true, force: true });
    }
  }
}

async function synced(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
