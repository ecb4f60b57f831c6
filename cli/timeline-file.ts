import { closeSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { InputError } from "../core/errors.ts";
import { Timeline } from "../sim/timeline.ts";

/** Text goes to the file in pieces of about this many characters. */
const pieceLength = 1 << 16;

/** Files under way; none outlives the program. */
const unfinished = new Set<string>();
process.on("exit", () => {
  for (const path of unfinished) rmSync(path, { force: true });
});

/** A timeline on its way into a file, which has its name when it is complete. */
export class TimelineFile extends Timeline {
  readonly #path: string;
  readonly #fresh: string;
  readonly #file: number;
  readonly #pieces: Pieces;

  private constructor(path: string, fresh: string, file: number, pieces: Pieces) {
    super((text) => pieces.add(text));
    this.#path = path;
    this.#fresh = fresh;
    this.#file = file;
    this.#pieces = pieces;
  }

  /** @throws InputError if it cannot be written. */
  static open(path: string): TimelineFile {
    const fresh = `${path}.${process.pid}.tmp`;
    const file = attempt(path, () => openSync(fresh, "wx"));
    unfinished.add(fresh);
    return new TimelineFile(path, fresh, file, new Pieces((text) => attempt(path, () => writeSync(file, text))));
  }

  /** The run is complete. */
  override close(): void {
    super.close();
    this.#pieces.flush();
    closeSync(this.#file);
    attempt(this.#path, () => renameSync(this.#fresh, this.#path));
    unfinished.delete(this.#fresh);
  }
}

class Pieces {
  readonly #write: (text: string) => void;
  #text = "";

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  add(text: string): void {
    this.#text += text;
    if (this.#text.length >= pieceLength) this.flush();
  }

  flush(): void {
    this.#write(this.#text);
    this.#text = "";
  }
}

function attempt<Result>(path: string, act: () => Result): Result {
  try {
    return act();
  } catch (error) {
    throw new InputError(`${path}: cannot be written (${(error as NodeJS.ErrnoException).code})`);
  }
}
