import { InputError } from "../core/errors.ts";
import type { TextStream } from "./model/tokenizer.ts";

/**
 * The text of an output up to the first stop string, which is excluded. A possible beginning of a stop string stays pending, so
 * that the text does not depend on how it is split into tokens:
 *
 *   text     returned ....... | pending: may be the beginning of a stop string
 */
export class StoppingText implements TextStream {
  readonly #stream: TextStream;
  readonly #stops: readonly string[];
  #pending = "";
  #stop: string | undefined;

  /** @throws InputError if a stop string is empty */
  constructor(stream: TextStream, stops: readonly string[]) {
    if (stops.includes("")) throw new InputError("a stop string is empty, expected text");
    this.#stream = stream;
    this.#stops = stops;
  }

  /** The stop string that ended the text. */
  get stop(): string | undefined {
    return this.#stop;
  }

  add(token: number): string {
    if (this.#stop !== undefined) return "";
    const text = this.#upToStop(this.#stream.add(token));
    if (this.#stop !== undefined) return text;
    const end = text.length - this.#pendingLength(text);
    this.#pending = text.slice(end);
    return text.slice(0, end);
  }

  end(): string {
    return this.#stop === undefined ? this.#upToStop(this.#stream.end()) : "";
  }

  /** Cuts the text at the stop string that is complete first, as if characters were appended one by one. */
  #upToStop(fresh: string): string {
    const text = this.#pending + fresh;
    this.#pending = "";
    let firstEnd = Number.POSITIVE_INFINITY;
    for (const stop of this.#stops) {
      const end = text.indexOf(stop) + stop.length;
      if (end < stop.length || end > firstEnd) continue;
      if (end === firstEnd && stop.length < this.#stop!.length) continue;
      this.#stop = stop;
      firstEnd = end;
    }
    return this.#stop === undefined ? text : text.slice(0, firstEnd - this.#stop.length);
  }

  /** Length of the longest suffix of the text that is a proper prefix of a stop string. */
  #pendingLength(text: string): number {
    const beginnings = this.#stops.map((stop) => {
      let length = Math.min(stop.length - 1, text.length);
      while (!text.endsWith(stop.slice(0, length))) length--;
      return length;
    });
    return Math.max(0, ...beginnings);
  }
}
