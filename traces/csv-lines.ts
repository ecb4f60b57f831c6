import { TraceError } from "../core/errors.ts";
import type { Field } from "./json-lines.ts";
import { fourDigits, KnownBytes } from "./known-bytes.ts";
import type { LineBlock } from "./lines.ts";

const comma = 0x2c;
const quote = 0x22;
const newline = 0x0a;
const carriageReturn = 0x0d;
const zero = 0x30;
const shownCharacters = 40;
const numberPattern = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;
const noField = -1;

/**
 * Reads the lines of a CSV file directly from their bytes, cell by cell; the first line has the names of the columns:
 *
 *     scan.header(block);
 *     scan.begin(block);
 *     for (let name = scan.next(); name; name = scan.next()) { … scan.integer(0, 100) … }
 *
 * Every cell for which `next` returns a name must be read. Columns that are not declared are skipped. Cells may be quoted;
 * a quoted cell ends on its line.
 */
export class CsvLineScanner<Name extends string> {
  readonly #names: readonly Name[];
  readonly #fields: Readonly<Record<Name, Field>>;
  #block: LineBlock | undefined;
  #bytes: Uint8Array = new Uint8Array();
  #at = 0;
  /** By column: index of its field. */
  #fieldOf: number[] = [];
  /** The next column. */
  #column = 0;
  #field = 0;
  #cell = 0;

  constructor(fields: Readonly<Record<Name, Field>>) {
    this.#fields = fields;
    this.#names = Object.keys(fields) as Name[];
  }

  get file(): string {
    return this.#block!.file;
  }

  get line(): number {
    return this.#block!.line;
  }

  /** Moves to the block's current line. */
  begin(block: LineBlock): void {
    this.#block = block;
    this.#bytes = block.bytes;
    this.#at = block.start;
    this.#column = 0;
  }

  /** Whether the current line is blank. */
  get isBlank(): boolean {
    return this.#bytes[this.#at] <= 0x20 && this.#text(this.#at, this.#end).trim() === "";
  }

  /** Reads the names of the columns. @throws TraceError if a required one is missing or a declared one occurs twice */
  header(block: LineBlock): void {
    this.begin(block);
    const columns: string[] = [];
    do columns.push(this.#cellText());
    while (this.#skipComma());
    this.#fieldOf = columns.map((column) => this.#names.indexOf(column as Name));
    for (const name of this.#names) {
      const { expected, required } = this.#fields[name];
      const first = columns.indexOf(name);
      if (first < 0 && required)
        throw this.error(`the column ${name} is missing, expected ${expected}; the columns are ${columns.join(", ")}`);
      if (first !== columns.lastIndexOf(name)) throw this.error(`the column ${name} occurs twice`);
    }
  }

  /** Moves to the next declared column; undefined at the end of the line. */
  next(): Name | undefined {
    const fieldOf = this.#fieldOf;
    const bytes = this.#bytes;
    while (this.#column < fieldOf.length) {
      const field = fieldOf[this.#column];
      if (this.#column > 0) {
        if (bytes[this.#at] !== comma) throw this.#otherWidth();
        this.#at++;
      }
      this.#column++;
      this.#cell = this.#at;
      if (field !== noField) {
        this.#field = field;
        return this.#names[field];
      }
      this.#skipCell();
    }
    const end = bytes[this.#at] === carriageReturn ? this.#at + 1 : this.#at;
    if (bytes[end] !== newline) throw this.#otherWidth();
    this.#block!.endsAt(end);
    return undefined;
  }

  /** The cell as a number. */
  number(): number {
    const bytes = this.#bytes;
    let at = this.#at;
    let value = 0;
    for (let digit = bytes[at] - zero; digit >= 0 && digit <= 9; digit = bytes[++at] - zero) value = value * 10 + digit;
    const digits = at - this.#at;
    if (digits > 0 && digits <= 15 && this.#isCellEnd(at)) {
      this.#at = at;
      return value;
    }
    const text = this.text();
    if (!numberPattern.test(text)) throw this.unexpected();
    return Number(text);
  }

  /** The cell as an integer of `least .. most`. */
  integer(least: number, most: number): number {
    const value = this.number();
    if (!(value >= least && value <= most && Number.isInteger(value))) throw this.unexpected();
    return value + 0; // −0
  }

  /** The cell as text, without quotes and without white space around it. */
  text(): string {
    return this.#cellText();
  }

  /** The cell as a point in time. @throws TraceError if it is not a date with a time */
  date(into: DateTime): void {
    const end = into.parse(this.#bytes, this.#block!.view, this.#at);
    if (end !== undefined && this.#isCellEnd(end)) {
      this.#at = end;
      return;
    }
    const text = Buffer.from(`${this.text()}\n`);
    const view = new DataView(text.buffer, text.byteOffset, text.length);
    if (into.parse(text, view, 0) !== text.length - 1) throw this.unexpected();
  }

  /** The error for a current cell with an invalid value. */
  unexpected(): TraceError {
    this.#at = this.#cell;
    const text = this.#cellText();
    const shown = text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
    const name = this.#names[this.#field];
    return this.error(`${name} is ${JSON.stringify(shown)}, expected ${this.#fields[name].expected}`);
  }

  /** An error about the contents of the line. */
  error(message: string): TraceError {
    const cut = this.#block!.terminated ? "" : " (the last line has no line end: it may be cut short)";
    return new TraceError(`${this.file}:${this.line}: ${message}${cut}`);
  }

  /** End of the line, without its line end of one or two bytes. */
  get #end(): number {
    const { bytes, start, end } = this.#block!;
    return end > start && bytes[end - 1] === carriageReturn ? end - 1 : end;
  }

  #isLineEnd(at: number): boolean {
    const byte = this.#bytes[at];
    return byte === newline || (byte === carriageReturn && this.#bytes[at + 1] === newline);
  }

  #isCellEnd(at: number): boolean {
    return this.#bytes[at] === comma || this.#isLineEnd(at);
  }

  #otherWidth(): TraceError {
    this.begin(this.#block!);
    let count = 1;
    for (this.#skipCell(); this.#skipComma(); this.#skipCell()) count++;
    return this.error(`the line has ${count} columns, expected ${this.#fieldOf.length} as in the first line`);
  }

  /** Skips a comma; false if the line ends instead. */
  #skipComma(): boolean {
    if (this.#isLineEnd(this.#at)) return false;
    this.#at++;
    return true;
  }

  /** Skips a cell, to the comma or the end of the line after it. */
  #skipCell(): void {
    const bytes = this.#bytes;
    const end = this.#end;
    let at = this.#at;
    if (bytes[at] !== quote) while (at < end && bytes[at] !== comma) at++;
    else {
      // A quote within a quoted cell is written twice.
      for (at++; at < end; at++)
        if (bytes[at] === quote) {
          if (bytes[at + 1] !== quote) break;
          at++;
        }
      if (at >= end) throw this.error(`column ${this.#column || 1} has a quote that does not end on the line`);
      at++;
      while (at < end && bytes[at] === 0x20) at++;
      if (at < end && bytes[at] !== comma)
        throw this.error(`column ${this.#column || 1} has text after its closing quote, expected a comma`);
    }
    this.#at = at;
  }

  #cellText(): string {
    const start = this.#at;
    this.#skipCell();
    const text = this.#text(start, this.#at).trim();
    return text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"').trim() : text.trim();
  }

  #text(start: number, end: number): string {
    const { buffer, byteOffset } = this.#bytes;
    return Buffer.from(buffer, byteOffset + start, end - start).toString();
  }
}

/** Parses dates such as `2023-11-16 18:15:46.6805900` and `2024-05-10T00:00:00.009930+00:00`. */
export class DateTime {
  /** Seconds since 1970-01-01, in UTC; a date without a time zone is in UTC. */
  seconds = 0;
  /** 0 to 999,999,999; further digits of the fraction are dropped. */
  nanos = 0;
  /** The last day that was parsed, as decimal digits, and its seconds. */
  #day = -1;
  #daySeconds = 0;
  /** The last date and time that was parsed up to the colon after its minutes, and its seconds: most lines repeat it. */
  #minute: KnownBytes | undefined;
  #minuteSeconds = 0;

  /**
   * Parses from `at`, where a byte that is no digit must follow. `view` has the same bytes. Returns the end; undefined if
   * there is no date.
   */
  parse(bytes: Uint8Array, view: DataView, at: number): number | undefined {
    if (!this.#minute?.isAt(view, at) && !this.#parseMinute(bytes, at)) return undefined;
    const second = twoDigits(bytes, at + minuteLength);
    // Seconds may be 60: a leap second.
    if (!(second >= 0 && second <= 60)) return undefined;
    let end = at + minuteLength + 2;
    let nanos = 0;
    if (bytes[end] === 0x2e) {
      const first = ++end;
      const last = first + 9;
      const four = fourDigits(view, end);
      if (four >= 0) {
        nanos = four;
        end += 4;
      }
      for (; isDigit(bytes[end]); end++) if (end < last) nanos = nanos * 10 + bytes[end] - zero;
      if (end === first) return undefined;
      if (end < last) nanos *= powersOfTen[last - end];
    }
    let offset = 0;
    if (bytes[end] === 0x5a) end++;
    else if (bytes[end] === 0x2b || bytes[end] === 0x2d) {
      const hours = twoDigits(bytes, end + 1);
      const minutes = twoDigits(bytes, end + 4);
      if (bytes[end + 3] !== 0x3a || (hours | minutes) < 0) return undefined;
      offset = (bytes[end] === 0x2b ? 60 : -60) * (hours * 60 + minutes);
      end += 6;
    }
    this.seconds = this.#minuteSeconds + second - offset;
    this.nanos = nanos;
    return end;
  }

  /** Parses the date and the time up to its minutes; false if there is none. */
  #parseMinute(bytes: Uint8Array, at: number): boolean {
    const century = twoDigits(bytes, at);
    const year = twoDigits(bytes, at + 2);
    const month = twoDigits(bytes, at + 5);
    const date = twoDigits(bytes, at + 8);
    const hour = twoDigits(bytes, at + 11);
    const minute = twoDigits(bytes, at + 14);
    const between = bytes[at + 10];
    const isDate = bytes[at + 4] === 0x2d && bytes[at + 7] === 0x2d && (between === 0x20 || between === 0x54);
    const isTime = bytes[at + 13] === 0x3a && bytes[at + 16] === 0x3a;
    const areDigits = (century | year | month | date | hour | minute) >= 0;
    if (!(isDate && isTime && areDigits && hour < 24 && minute < 60)) return false;
    const day = (century * 100 + year) * 10_000 + month * 100 + date;
    if (day !== this.#day && !this.#setDay(day)) return false;
    this.#minute = new KnownBytes(bytes.subarray(at, at + minuteLength));
    this.#minuteSeconds = this.#daySeconds + hour * 3600 + minute * 60;
    return true;
  }

  /** False if there is no such day. */
  #setDay(day: number): boolean {
    const [year, month, date] = [Math.floor(day / 10_000), Math.floor(day / 100) % 100, day % 100];
    const time = new Date(Date.UTC(year, month - 1, date));
    const isDay = time.getUTCFullYear() === year && time.getUTCMonth() === month - 1 && time.getUTCDate() === date;
    if (!isDay) return false;
    this.#day = day;
    this.#daySeconds = time.getTime() / 1000;
    return true;
  }
}

/** Length of `2023-11-16 18:15:`. */
const minuteLength = 17;
const powersOfTen = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= zero + 9;
}

/** Two decimal digits as a number; negative if they are not digits. */
function twoDigits(bytes: Uint8Array, at: number): number {
  const tens = bytes[at] - zero;
  const ones = bytes[at + 1] - zero;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -1;
}
