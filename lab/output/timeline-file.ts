import { closeSync, openSync, realpathSync, renameSync, rmSync, writeSync } from "node:fs";
import { InputError } from "../../core/errors.ts";
import { Timeline } from "../../core/serving/timeline.ts";
import { unfinished } from "../../core/unfinished.ts";
import { replaceable } from "../../traces/replace-file.ts";
import { pluginHost } from "../user-plugins/host.ts";
import { userCodeRuns } from "../user-plugins/user-code.ts";

/** Text is written in pieces of about this many characters. */
const pieceLength = 1 << 16;

/**
 * Writes a timeline to a temporary file, which is renamed when it is complete. If plug-in code runs in the program, a signal ends
 * it at once, so all text is kept in memory until then and no temporary file can remain.
 */
export class TimelineFile {
  readonly timeline: Timeline;
  readonly #path: string;
  readonly #target: string;
  readonly #temporary: string;
  readonly #keepsAll = userCodeRuns();
  #pieces: string[] = [];
  #length = 0;
  /** Undefined while no temporary file is open. */
  #file: number | undefined;

  private constructor(path: string, target: string) {
    this.#path = path;
    this.#target = target;
    this.#temporary = `${target}.${process.pid}.tmp`;
    this.#file = this.#open();
    if (this.#keepsAll) this.#remove();
    this.timeline = new Timeline((text) => this.#add(text));
  }

  /** The file may exist, unless the run reads it. @throws InputError if it cannot be written. */
  static async open(path: string, read: readonly string[]): Promise<TimelineFile> {
    const target = await replaceable(path);
    if (read.some((file) => isSame(file, target)))
      throw new InputError(`${path}: is read by this run, so it is not replaced`);
    return new TimelineFile(path, target);
  }

  /** Completes the file. */
  async close(): Promise<void> {
    this.timeline.close();
    await pluginHost().withoutPluginCode(async () => {
      if (this.#keepsAll) this.#file = this.#open();
      this.#flush();
      this.#system(() => renameSync(this.#temporary, this.#target));
      this.#finish();
    });
  }

  /** Removes the file, unless it is complete. */
  discard(): void {
    if (this.#file !== undefined) this.#remove();
  }

  #add(text: string): void {
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length >= pieceLength && !this.#keepsAll) this.#flush();
  }

  #flush(): void {
    for (let from = 0; from < this.#pieces.length; from += 1000) {
      const text = this.#pieces.slice(from, from + 1000).join("");
      this.#system(() => writeSync(this.#file!, text));
    }
    this.#pieces = [];
    this.#length = 0;
  }

  #open(): number {
    const file = this.#system(() => openSync(this.#temporary, "wx"));
    unfinished.add(this.#temporary);
    return file;
  }

  #remove(): void {
    rmSync(this.#temporary);
    this.#finish();
  }

  #finish(): void {
    closeSync(this.#file!);
    this.#file = undefined;
    unfinished.delete(this.#temporary);
  }

  #system<Result>(act: () => Result): Result {
    try {
      return act();
    } catch (error) {
      throw new InputError(`${this.#path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
    }
  }
}

/** True if both paths resolve to the same file. */
function isSame(file: string, target: string): boolean {
  try {
    return realpathSync(file) === realpathSync(target);
  } catch {
    return false;
  }
}
