import { TraceError } from "../core/errors.ts";
import { type Nanos, type Trace, TraceBuilder, type TraceRow } from "../core/trace/trace.ts";
import { shownPath } from "./bytes.ts";
import { type Notes, nanosPer, type TimeUnit, timeUnits } from "./format.ts";
import { type LineBlock, lineBlocks } from "./lines.ts";
import { sortedByArrival } from "./sort.ts";

/** Largest length in tokens, so that a length fits any signed 32-bit column. */
export const mostTokens = 2 ** 31 - 1;
export const expectedPromptTokens = `an integer from 1 to ${mostTokens}`;
export const expectedOutputTokens = `an integer from 0 to ${mostTokens}`;

/** A cursor on a line of a trace file; `JsonLineScanner` and `CsvLineScanner` read its fields. */
export interface LineScanner {
  readonly file: string;
  readonly line: number;
  readonly isBlank: boolean;
  begin(block: LineBlock): void;
  error(message: string): TraceError;
  /** Reads the first line that is not blank, where it is a header. */
  header?(block: LineBlock): void;
}

/** Parses a line of a trace into a row; `scan` is at the beginning of the line. The row may be reused. */
export interface LineReader {
  readonly unitTokens: number;
  readonly lengthsOnly?: true;
  readonly scan: LineScanner;
  /** The request of the line; undefined if the line is left out. */
  row(): TraceRow | undefined;
}

interface ReadRequests {
  readonly signal?: AbortSignal | undefined;
  /** Requests may be in any order: they are sorted. */
  readonly sort?: boolean | undefined;
  readonly notes: Notes;
}

/** Reads the requests of several files, one request per line, as batches of one trace. Blank lines are skipped. */
export function requestBatches(
  files: readonly string[],
  reader: LineReader,
  { signal, sort = false, notes }: ReadRequests,
): AsyncGenerator<Trace> {
  const batches = inFileOrder(files, reader, signal);
  return sort ? sortedByArrival(batches, notes) : batches;
}

async function* inFileOrder(
  files: readonly string[],
  reader: LineReader,
  signal: AbortSignal | undefined,
): AsyncGenerator<Trace> {
  const builder = new TraceBuilder(reader.unitTokens, 0, reader);
  const { scan } = reader;
  for (const file of files) {
    let any = false;
    let inHeader = scan.header !== undefined;
    for await (const block of lineBlocks(file, signal)) {
      while (block.next()) {
        scan.begin(block);
        if (scan.isBlank) continue;
        if (inHeader) {
          scan.header?.(block);
          inHeader = false;
          continue;
        }
        const row = reader.row();
        any = true;
        if (row === undefined) continue;
        builder.add(row);
        if (builder.isFull) yield builder.take();
      }
    }
    const found = scan.header === undefined || inHeader ? "blank lines" : "a header";
    if (!any) throw new TraceError(`${shownPath(file)}: no requests, only ${found}`);
  }
  if (builder.requestCount > 0) yield builder.take();
}

/** The place of an error in a file. */
type Place = Pick<LineScanner, "file" | "error">;

/** The least Unix time that is recognised, in 2002, and the most, in 2040, in seconds. */
const unixTimes = { least: 1e9, most: 2.2e9 };
const dayNs = 86_400e9;

export interface ArrivalTimes {
  /** The user stated the unit, so that no other unit is suggested. */
  readonly isUnitGiven?: boolean;
  /**
   * True: times may decrease, and in a trace that is relative to its first request they may be negative. False: they may not,
   * and the message names --sort. Undefined: the format has no such option.
   */
  readonly anyOrder?: boolean;
}

/** Converts a file's times to nanoseconds and checks that they do not decrease, also from one file to the next. */
export class ArrivalClock {
  readonly #nanosPerUnit: number;
  readonly #isUnitGiven: boolean;
  readonly #anyOrder: boolean | undefined;
  #last: number | undefined;
  #lastNanos = 0;
  #file = "";
  #origin = 0;
  #originNanos = 0;

  constructor(nanosPerUnit: number, { isUnitGiven = false, anyOrder }: ArrivalTimes = {}) {
    this.#nanosPerUnit = nanosPerUnit;
    this.#isUnitGiven = isUnitGiven;
    this.#anyOrder = anyOrder;
  }

  /**
   * Unix times are too large for integer nanoseconds, so the times of a trace that begins with one are relative to its
   * first request.
   */
  arrivalNs(time: number, field: string, scan: Place): Nanos {
    const last = this.#last;
    if (last === undefined && time * this.#nanosPerUnit > Number.MAX_SAFE_INTEGER) this.#origin = time;
    if (last === undefined) this.#checkUnit(time, field, scan);
    else if (time < last && !this.#anyOrder) throw this.#decreased(String(time), String(last), field, scan);
    const nanos = Math.round((time - this.#origin) * this.#nanosPerUnit) + 0; // JSON has −0
    if (nanos > Number.MAX_SAFE_INTEGER) throw tooLate(String(time), field, scan);
    this.#last = time;
    this.#file = scan.file;
    return nanos;
  }

  /** The arrival for a date, in seconds and nanoseconds since 1970; relative to the first request. */
  dateNs(date: { readonly seconds: number; readonly nanos: number }, field: string, scan: Place): Nanos {
    const { seconds, nanos } = date;
    const last = this.#last;
    if (last === undefined) {
      this.#origin = seconds;
      this.#originNanos = nanos;
    } else if ((seconds < last || (seconds === last && nanos < this.#lastNanos)) && !this.#anyOrder)
      throw this.#decreased(dateText(seconds, nanos), dateText(last, this.#lastNanos), field, scan);
    const arrival = (seconds - this.#origin) * 1e9 + (nanos - this.#originNanos);
    if (arrival > Number.MAX_SAFE_INTEGER) throw tooLate(dateText(seconds, nanos), field, scan);
    this.#last = seconds;
    this.#lastNanos = nanos;
    this.#file = scan.file;
    return arrival;
  }

  #decreased(time: string, last: string, field: string, scan: Place): TraceError {
    const least =
      scan.file === this.#file
        ? "the time of the previous request"
        : `where ${this.#file} ends: files are read one after the other as one trace`;
    const hint = this.#anyOrder === undefined ? "" : "; kvlab trace convert --sort writes a sorted trace";
    return scan.error(`${field} is ${time}, expected at least ${last}, ${least}${hint}`);
  }

  /** Refuses a first time that is no plausible time in the format's unit, but a Unix time in another one. */
  #checkUnit(time: number, field: string, scan: Place): void {
    if (this.#isUnitGiven || time * this.#nanosPerUnit < dayNs) return;
    const isUnixTime = (unit: TimeUnit) => {
      const seconds = (time * nanosPer[unit]) / 1e9;
      return seconds >= unixTimes.least && seconds <= unixTimes.most;
    };
    const unit = timeUnits.find(isUnixTime);
    if (unit === undefined || nanosPer[unit] === this.#nanosPerUnit) return;
    const expected = timeUnits.find((each) => nanosPer[each] === this.#nanosPerUnit);
    throw scan.error(
      `${field} is ${time}, a Unix time in ${unit}, expected ${expected}; --time-unit ${unit} reads it so, ` +
        `--time-unit ${expected} as it is`,
    );
  }
}

const dateText = (seconds: number, nanos: number) =>
  `${new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ")}.${String(nanos).padStart(9, "0")} UTC`;

const tooLate = (time: string, field: string, scan: Place) =>
  scan.error(`${field} is ${time}, expected at most 2^53 ns (104 days) after the first request`);
