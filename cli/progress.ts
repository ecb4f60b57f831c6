import { Presets, SingleBar } from "cli-progress";

const eraseLine = "\r\x1b[K";

/** What is being done, on stderr, and only where somebody watches it. Erases itself. */
export class Progress {
  readonly #shown = process.stderr.isTTY === true;
  #bar: SingleBar | undefined;
  #stated = false;

  /** Something of unknown length. */
  state(what: string): void {
    if (!this.#shown) return;
    this.#bar?.stop();
    this.#bar = undefined;
    process.stderr.write(`${eraseLine}${what}`);
    this.#stated = true;
  }

  /** A bar that is full at `total`. */
  start(what: string, total: number): void {
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
    this.#bar?.increment(by);
  }

  done(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    if (this.#stated) process.stderr.write(eraseLine);
    this.#stated = false;
  }
}
