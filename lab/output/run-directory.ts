import { constants, mkdirSync } from "node:fs";
import {
  access,
  copyFile,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  rmdir,
  writeFile,
} from "node:fs/promises";
import { hostname } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { InputError } from "../../core/errors.ts";
import { makeFolder } from "../../core/make-folder.ts";
import { unfinished } from "../../core/unfinished.ts";
import { pluginHost } from "../user-plugins/host.ts";

/** The files of a run's directory. A directory with any other file is not replaced. */
export const runFiles = [
  "run.json",
  "requests.parquet",
  "steps.parquet",
  "series.parquet",
  "events.parquet",
  "kv-events.jsonl",
  "residency.parquet",
] as const;

/**
 * The directory in which a run will be saved, checked to be free or to contain an earlier run.
 *
 * @throws InputError if it contains anything else or cannot be written
 */
export async function claimRunDirectory(path: string): Promise<RunDirectory> {
  const found = await inspect(path);
  const { target } = found;
  if (found.what === "other")
    throw new InputError(`${path}: exists and is not a run of kvlab (${found.why}), so it is not replaced`);
  if (target === process.cwd()) throw new InputError(`${path}: is the current directory, expected one of its own`);
  await checkWritable(path, dirname(target));
  return new RunDirectory(path, target);
}

/** Names of other entries in a folder of runs: temporary directories of other processes, and the folders of live runs and notes. */
const hiddenName = /^\.(live|notes|.+\.\d+\.(tmp|old))$/;

/** @throws InputError unless runs can be saved below this path: it is free, empty, or contains only runs and curves. */
export async function checkRunsFolder(path: string): Promise<void> {
  const target = await realpath(path).catch(() => resolve(path));
  if (target === process.cwd()) throw new InputError(`${path}: is the current directory, expected one of its own`);
  await checkWritable(path, path);
  for (const name of await readdir(target).catch(() => [])) {
    if (hiddenName.test(name)) continue;
    const { what } = await inspect(join(target, name));
    if (what !== "run" && !(await hasDocument(join(target, name, "curves.json"), "curve/1")))
      throw new InputError(
        `${path}: has ${name} in it, which is not a run of kvlab; expected a new folder, or one of runs`,
      );
  }
}

/** @throws InputError if nothing can be created below this path (which need not exist yet). */
export async function checkWritable(shown: string, path: string): Promise<void> {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    const found = await lstat(folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      if (error.code === "ENOTDIR") return undefined;
      throw new InputError(`${shown}: cannot be written (${error.code})`);
    });
    if (!found) continue;
    const real = await realpath(folder);
    if (!(await lstat(real)).isDirectory()) {
      throw new InputError(`${shown}: cannot be written, ${relative(process.cwd(), folder) || folder} is a file`);
    }
    try {
      await access(real, constants.W_OK | constants.X_OK);
      return;
    } catch (error) {
      throw new InputError(`${shown}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
    }
  }
}

type Inspected = { readonly target: string } & (
  | { readonly what: "free" | "run" }
  | { readonly what: "other"; readonly why: string }
);

async function inspect(path: string): Promise<Inspected> {
  const target = await realpath(path).catch(() => resolve(path));
  const found = await readdir(target, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => error);
  if (found instanceof Error) {
    if (found.code === "ENAMETOOLONG")
      throw new InputError(`${path}: cannot be written, the name is longer than the file system allows`);
    if (found.code === "ENOENT" || (await parentIsFile(target))) return { target, what: "free" };
    return { target, what: "other", why: found.code === "ENOTDIR" ? "is no folder" : `${found.code}` };
  }
  if (found.length === 0) return { target, what: "free" };
  const foreign = found.find((entry) => !entry.isFile() || !(runFiles as readonly string[]).includes(entry.name));
  if (foreign) return { target, what: "other", why: `has ${foreign.name} in it` };
  if (await hasDocument(join(target, "run.json"), "run/1")) return { target, what: "run" };
  return { target, what: "other", why: "has no run.json of a run" };
}

/** True if a file is in place of a parent folder, which `checkWritable` reports. */
const parentIsFile = async (target: string) => !(await lstat(target).catch(() => undefined));

async function hasDocument(path: string, schema: string): Promise<boolean> {
  try {
    return JSON.parse(await readFile(path, "utf8")).schema === schema;
  } catch {
    return false;
  }
}

/** Names are shortened to this number of characters, because a suffix could make a long name too long for the file system. */
const longestKept = 30;

/** Temporary files below a folder of runs, for a run whose directory is not known before its end. */
export class TemporaryFiles {
  readonly #parent: string;
  readonly #folder: string;
  #made: string | undefined;
  #exists = false;

  constructor(parent: string) {
    this.#parent = resolve(parent);
    this.#folder = `${temporaryBeside(join(this.#parent, "tables"))}.tmp`;
  }

  /** The path of a file of this name. The folder is created by the first call. */
  path(name: string): string {
    if (!this.#exists) {
      this.#made = makeFolder(this.#parent);
      unfinished.add(this.#folder);
      mkdirSync(this.#folder);
      this.#exists = true;
    }
    return join(this.#folder, name);
  }

  /** Removes the files that were not moved, and folders that are empty then. */
  async remove(): Promise<void> {
    if (!this.#exists) return;
    await rm(this.#folder, { recursive: true, force: true });
    unfinished.delete(this.#folder);
    if (this.#made) await removeEmpty(this.#parent, this.#made);
  }
}

/** The path of a temporary directory beside the target, without its suffix. */
const temporaryBeside = (target: string) =>
  join(dirname(target), `.${[...basename(target)].slice(0, longestKept).join("")}.${hostname()}.${process.pid}`);

/**
 * Removes temporary directories that killed programs on this host left behind. A `.old` directory is a complete run that was about to
 * be replaced: where its replacement is missing it is renamed back.
 */
async function removeStale(parent: string): Promise<void> {
  for (const name of await readdir(parent).catch(() => [])) {
    const [, owner = "", pid, suffix] = /^\.(.+)\.(\d+)\.(tmp|old)$/.exec(name) ?? [];
    const isJob = owner.startsWith("job-");
    if (isJob || !owner.endsWith(`.${hostname()}`) || isAlive(Number(pid))) continue;
    const run = owner.slice(0, -hostname().length - 1);
    const path = join(parent, name);
    const target = join(parent, run);
    const isLost = suffix === "old" && (await lstat(target).catch(() => undefined)) === undefined;
    if (!isLost) await rm(path, { recursive: true, force: true });
    else if ([...run].length < longestKept) await rename(path, target).catch(() => {});
  }
}

/** Whether a process of this machine runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** A run's directory, which appears under its name only when it is complete. */
export class RunDirectory {
  /** The user's path. */
  readonly path: string;
  readonly #target: string;

  constructor(path: string, target: string) {
    this.path = path;
    this.#target = target;
  }

  /** Calls `write` with a temporary directory, which then replaces the target. */
  async fill(write: (directory: string) => Promise<void>): Promise<void> {
    await pluginHost().withoutPluginCode(() => this.#fill(write));
  }

  async #fill(write: (directory: string) => Promise<void>): Promise<void> {
    const parent = dirname(this.#target);
    const made = makeFolder(parent, this.path);
    await removeStale(parent);
    const beside = temporaryBeside(this.#target);
    const temporary = `${beside}.tmp`;
    unfinished.add(temporary);
    let complete = false;
    try {
      await this.#system(() => mkdir(temporary));
      await this.#system(() => write(temporary));
      await this.#system(() => this.#replace(temporary, `${beside}.old`));
      complete = true;
    } finally {
      await rm(temporary, { recursive: true, force: true });
      unfinished.delete(temporary);
      if (!complete && made) await removeEmpty(parent, made);
    }
  }

  async #replace(temporary: string, old: string): Promise<void> {
    const before = await readdir(this.#target).catch(() => undefined);
    if (before && before.length > 0) {
      await rename(this.#target, old);
      unfinished.add(old);
    }
    await rename(temporary, this.#target);
    await rm(old, { recursive: true, force: true });
    unfinished.delete(old);
  }

  async #system<Result>(act: () => Promise<Result>): Promise<Result> {
    try {
      return await act();
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException;
      if (syscall === undefined) throw error;
      throw new InputError(`${this.path}: cannot be written (${code})`);
    }
  }
}

/**
 * Saves a complete run also at `target`, which may be an earlier run. The files are hard links where the file system has them; a
 * file that is replaced in one directory is unchanged in the other.
 *
 * @throws InputError if the target is not a run
 */
export async function linkRun(saved: string, target: string): Promise<void> {
  const directory = await claimRunDirectory(target);
  await directory.fill(async (temporary) => {
    for (const name of await readdir(saved))
      if ((runFiles as readonly string[]).includes(name)) await linkFile(join(saved, name), join(temporary, name));
  });
}

const linkFile = (from: string, to: string) => link(from, to).catch(() => copyFile(from, to));

/**
 * Deletes a run's directory. It is first renamed to a hidden name, so that it disappears at once.
 *
 * @throws InputError if it is a link, not a run, or has other files in it
 */
export async function deleteRun(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (!found?.isDirectory()) throw new InputError(`${basename(path)}: is not a folder, so it is not deleted`);
  const inspected = await inspect(path);
  if (inspected.what !== "run")
    throw new InputError(`${basename(path)}: is not a run of kvlab, or has other files in it, so it is not deleted`);
  const hidden = `${temporaryBeside(path)}.tmp`;
  await rename(path, hidden);
  await rm(hidden, { recursive: true, force: true });
}

/** Removes empty folders from `path` up to `first`. */
export async function removeEmpty(path: string, first: string): Promise<void> {
  for (let folder = path; folder.length >= first.length; folder = dirname(folder)) {
    await rmdir(folder).catch(() => {});
  }
}

export const writeText = (directory: string, name: (typeof runFiles)[number], text: string) =>
  writeFile(join(directory, name), text);
