import { closeSync, fsync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InputError } from "../../core/errors.ts";
import { unfinished } from "../../core/unfinished.ts";
import { whyUnwritable } from "../../traces/replace-file.ts";

/** The name of a report in the folder of its configuration. */
export const reportFile = "run.json";

/** The folder of a shard's reports, beside the list of its results. */
export const reportsBeside = (list: string): string => list.replace(/(\.result)?(\.json)?$/, ".reports");

/** Most files that are written and not yet synced. */
const mostUnsynced = 32;

/** The reports of a shard that a worker writes: each in a folder named by its key, synced while the next configuration runs. */
export class ReportFiles {
  readonly #folder: string;
  #syncing: Promise<unknown>[] = [];

  /** @throws InputError if the folder cannot be written */
  constructor(folder: string) {
    this.#folder = folder;
    unfinished.add(folder);
    this.#writing(() => {
      rmSync(folder, { recursive: true, force: true });
      mkdirSync(folder);
    });
  }

  /** @throws InputError if it cannot be written */
  async add(key: string, report: string): Promise<void> {
    const file = this.#writing(() => {
      mkdirSync(join(this.#folder, key));
      const opened = openSync(join(this.#folder, key, reportFile), "w");
      try {
        writeFileSync(opened, report);
      } catch (error) {
        closeSync(opened);
        throw error;
      }
      return opened;
    });
    this.#syncing.push(synced(file));
    if (this.#syncing.length >= mostUnsynced) await this.#allSynced();
  }

  /** Waits until all are on the disk; from then on the folder stays when the process ends. @throws InputError */
  async complete(): Promise<void> {
    await this.#allSynced();
    unfinished.delete(this.#folder);
  }

  async #allSynced(): Promise<void> {
    const errors = await Promise.all(this.#syncing.splice(0));
    for (const error of errors)
      this.#writing(() => {
        if (error) throw error;
      });
  }

  #writing<Result>(act: () => Result): Result {
    try {
      return act();
    } catch (error) {
      const why = whyUnwritable(error);
      if (why === undefined) throw error;
      throw new InputError(`${this.#folder}: cannot be written (${why})`);
    }
  }
}

/** Syncs and closes a file; resolves with the system's error, if any. */
const synced = (file: number): Promise<unknown> =>
  new Promise((resolve) => {
    fsync(file, (error) => {
      closeSync(file);
      resolve(error);
    });
  });
