import { Presets, SingleBar } from "cli-progress";
import { grouped } from "../../core/counted.ts";
import type { Progress as CallProgress } from "../../lab/control.ts";

const eraseLine = "\r\x1b[K";

/** What a program is told that has started this one with `KVLAB_PROGRESS=ipc`, as the dashboard does. */
interface ProgressMessage {
  readonly doing: string;
  /** 0 to 1; null: not known. */
  readonly share: number | null;
}

const isAsked = process.env["KVLAB_PROGRESS"] === "ipc";

// Nobody waits any more for what this program does: whoever has started it was killed.
if (isAsked && process.channel) {
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel.unref();
}

/** What is being done, on stderr, and only where somebody watches it. Erases itself. */
export class Progress {
  readonly #shown = process.stderr.isTTY === true;
  #doing = "";
  #total = 0;
  #finished = 0;
  #bar: SingleBar | undefined;
  #stated = false;

  /** Shows the progress of a call of the library. */
  readonly follow = ({ doing, done, total }: CallProgress): void => {
    if (total === undefined) {
      this.state(done === 0 ? doing : `${doing}: ${grouped(done)} requests`);
      return;
    }
    if (doing !== this.#doing || total !== this.#total) this.start(doing, total);
    this.advance(done - this.#finished);
  };

  /** Work of unknown length. */
  state(what: string): void {
    tell({ doing: what, share: null });
    this.#doing = "";
    if (!this.#shown) return;
    this.#bar?.stop();
    this.#bar = undefined;
    process.stderr.write(`${eraseLine}${what}`);
    this.#stated = true;
  }

  /** A bar that is full at `total`. */
  start(what: string, total: number): void {
    this.#doing = what;
    this.#total = total;
    this.#finished = 0;
    tell({ doing: what, share: 0 });
    if (!this.#shown) return;
    this.done();
    const options = {
      format: `${what} {bar} {percentage} %`,
      barsize: 30,
      stream: process.stderr,
      hideCursor: false,
      // Else a terminal that is left in the middle would not wrap lines any more.
      linewrap: true,
      clearOnComplete: true,
      gracefulExit: false,
    };
    this.#bar = new SingleBar(options, Presets.shades_classic);
    this.#bar.start(total, 0);
  }

  advance(by: number): void {
    const percent = () => Math.floor((100 * this.#finished) / this.#total);
    const before = percent();
    this.#finished += by;
    if (percent() > before) tell({ doing: this.#doing, share: Math.min(1, this.#finished / this.#total) });
    this.#bar?.increment(by);
  }

  done(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    if (this.#stated) process.stderr.write(eraseLine);
    this.#stated = false;
  }
}

/** Whoever is gone meanwhile is told nothing. */
function tell(message: ProgressMessage): void {
  if (isAsked && process.connected) process.send?.(message, undefined, undefined, () => {});
}
