import { Presets, SingleBar } from "cli-progress";
import { grouped } from "../../core/counted.ts";
import type { Progress as CallProgress } from "../../lab/control.ts";
import { checkMemoryInUse } from "../memory-limits.ts";
import { complain } from "./print.ts";

const eraseLine = "\r\x1b[K";

/** A message to the parent process, if it set `KVLAB_PROGRESS=ipc`, as the dashboard does. */
interface ProgressMessage {
  readonly doing: string;
  /** 0 to 1; null: unknown. */
  readonly share: number | null;
}

const reportsToParent = process.env["KVLAB_PROGRESS"] === "ipc";

// The parent process was killed, so the result has no reader.
if (reportsToParent && process.channel) {
  process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
  process.channel.unref();
}

/** A progress line on stderr, only on a terminal. It is erased when the work is done. */
export class Progress {
  readonly #shown = process.stderr.isTTY === true;
  #doing = "";
  #total = 0;
  #finished = 0;
  #bar: SingleBar | undefined;
  #stated = false;

  /** Shows the progress of a library call. @throws InputError if the memory is nearly exhausted */
  readonly follow = ({ doing, done, total }: CallProgress): void => {
    checkMemoryInUse();
    if (total === undefined) {
      this.state(done === 0 ? doing : `${doing}: ${grouped(done)} requests`);
      return;
    }
    if (doing !== this.#doing || total !== this.#total) this.start(doing, total);
    this.advance(done - this.#finished);
  };

  /** Prints a remark of a library call. */
  readonly note = (text: string): void => {
    this.done();
    complain(`note: ${text}`, 0);
  };

  /** Work of unknown length. */
  state(doing: string): void {
    send({ doing, share: null });
    this.#doing = "";
    if (!this.#shown) return;
    this.#bar?.stop();
    this.#bar = undefined;
    process.stderr.write(`${eraseLine}${doing}`);
    this.#stated = true;
  }

  /** A bar that is full at `total`. */
  start(doing: string, total: number): void {
    this.#doing = doing;
    this.#total = total;
    this.#finished = 0;
    send({ doing, share: 0 });
    if (!this.#shown) return;
    this.done();
    const options = {
      format: `${doing} {bar} {percentage} %`,
      barsize: 30,
      stream: process.stderr,
      hideCursor: false,
      // With false, a program that is killed would leave the terminal without line wrapping.
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
    if (percent() > before) send({ doing: this.#doing, share: Math.min(1, this.#finished / this.#total) });
    this.#bar?.increment(by);
  }

  done(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    if (this.#stated) process.stderr.write(eraseLine);
    this.#stated = false;
  }
}

/** Sends to the parent process, unless its channel is closed. */
function send(message: ProgressMessage): void {
  if (reportsToParent && process.connected) process.send?.(message, undefined, undefined, () => {});
}
