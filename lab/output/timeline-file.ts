import { closeSync, openSync, realpathSync, renameSync, rmSync, writeSync } from "node:fs";
import { InputError } from "../../core/errors.ts";
import { Timeline } from "../../core/serving/timeline.ts";
import { replaceable } from "../../traces/write-mooncake.ts";
import { pluginHost } from "../user-plugins/host.ts";
import { userCodeRuns } from "../user-plugins/user-code.ts";
import { unfinished } from "./unfinished.ts";

/** Text goes to the file in pieces of about this many characters. */
const pieceLength = 1 << 16;

/**
 * A timeline on its way into a file, which has its name when it is complete. With a user's code in the program, which a signal
 * ends at once, all of it is kept until then: nothing can be left behind.
 */
export class TimelineFile {
  readonly timeline: Timeline;
  readonly #path: string;
  readonly #target: string;
  readonly #fresh: string;
  readonly #keepsAll = userCodeRuns();
  #pieces: string[] = [];
  #length = 0;
  #file: number;

  private constructor(path: string, target: string) {
    this.#path = path;
    this.#target = target;
    this.#fresh = `${target}.${process.pid}.tmp`;
    this.#file = this.#open();
    if (this.#keepsAll) this.#remove();
    this.timeline = new Timeline((text) => this.#add(text));
  }

  /** It may take the place of a file, but not of one that is read. @throws InputError if it cannot be written. */
  static async open(path: string, read: readonly string[]): Promise<TimelineFile> {
    const target = await replaceable(path);
    if (read.some((file) => isSame(file, target)))
      throw new InputError(`${path}: is what this run reads, so it is not replaced`);
    return new TimelineFile(path, target);
  }

  /** The run is complete. */
  async close(): Promise<void> {
    this.timeline.close();
    await pluginHost().withoutPluginCode(async () => {
      if (this.#keepsAll) this.#file = this.#open();
      this.#flush();
      closeSync(this.#file);
      this.#system(() => renameSync(this.#fresh, this.#target));
      unfinished.delete(this.#fresh);
    });
  }

  #add(text: string): void {
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length >= pieceLength && !this.#keepsAll) this.#flush();
  }

  #flush(): void {
    for (let from = 0; from < this.#pieces.length; from += 1000) {
      const text = this.#pieces.slice(from, from + 1000).join("");
      this.#system(() => writeSync(this.#file, text));
    }
    this.#pieces = [];
    this.#length = 0;
  }

  #open(): number {
    const file = this.#system(() => openSync(this.#fresh, "wx"));
    unfinished.add(this.#fresh);
    return file;
  }

  #remove(): void {
    closeSync(this.#file);
    rmSync(this.#fresh);
    unfinished.delete(this.#fresh);
  }

  #system<Result>(act: () => Result): Result {
    try {
      return act();
    } catch (error) {
      throw new InputError(`${this.#path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
    }
  }
}

/** Whether both are one file, behind links. */
function isSame(file: string, target: string): boolean {
  try {
    return realpathSync(file) === realpathSync(target);
  } catch {
    return false;
  }
}
