import { TraceError } from "../core/errors.ts";
import { type Nanos, type Trace, TraceBuilder, type TraceRow } from "../core/trace/trace.ts";
import type { JsonLineScanner } from "./json-lines.ts";
import { lineBlocks } from "./lines.ts";

/** Largest length in tokens, so that a length fits any signed 32-bit column. */
export const mostTokens = 2 ** 31 - 1;
export const expectedPromptTokens = `an integer from 1 to ${mostTokens}`;
export const expectedOutputTokens = `an integer from 0 to ${mostTokens}`;

/** Parses a line of a trace into a row; `scan` is at the beginning of the line. The row may be reused. */
export interface LineReader<Name extends string> {
  readonly unitTokens: number;
  readonly scan: JsonLineScanner<Name>;
  row(): TraceRow;
}

/** Reads the requests of several files, one object per line, as batches of one trace. Blank lines are skipped. */
export async function* requestBatches<Name extends string>(
  files: readonly string[],
  reader: LineReader<Name>,
  signal?: AbortSignal,
): AsyncGenerator<Trace> {
  const builder = new TraceBuilder(reader.unitTokens);
  const { scan } = reader;
  for (const file of files) {
    let any = false;
    for await (const block of lineBlocks(file, signal)) {
      while (block.next()) {
        scan.begin(block);
        if (scan.isBlank) continue;
        builder.add(reader.row());
        any = true;
        if (builder.isFull) yield builder.take();
      }
    }
    if (!any) throw new TraceError(`${file}: no requests, only blank lines`);
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** Converts a file's times to nanoseconds and checks that they do not decrease, also from one file to the next. */
export class ArrivalClock {
  readonly #nanosPerUnit: number;
  #last: number | undefined;
  #file = "";
  #origin = 0;

  constructor(nanosPerUnit: number) {
    this.#nanosPerUnit = nanosPerUnit;
  }

  /**
   * Unix times are too large for integer nanoseconds, so the times of a trace that begins with one are relative to its
   * first request.
   */
  arrivalNs(time: number, field: string, scan: Pick<JsonLineScanner<string>, "file" | "error">): Nanos {
    const last = this.#last;
    if (last === undefined && time * this.#nanosPerUnit > Number.MAX_SAFE_INTEGER) this.#origin = time;
    if (last !== undefined && time < last) {
      throw scan.error(
        scan.file === this.#file
          ? `${field} is ${time}, expected at least ${last}, the time of the previous request`
          : `${field} is ${time}, expected at least ${last}, where ${this.#file} ends: files are read one after the other as one trace`,
      );
    }
    const nanos = Math.round((time - this.#origin) * this.#nanosPerUnit) + 0; // JSON has −0
    if (nanos > Number.MAX_SAFE_INTEGER)
      throw scan.error(`${field} is ${time}, expected at most 2^53 ns (104 days) after the first request`);
    this.#last = time;
    this.#file = scan.file;
    return nanos;
  }
}
