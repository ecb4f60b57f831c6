import { TraceError } from "../core/errors.ts";
import { fourDigits, KnownBytes } from "./known-bytes.ts";
import type { LineBlock } from "./lines.ts";

/** Description of a field's expected value, for messages. */
export interface Field {
  readonly expected: string;
  readonly required?: true;
}

/** Names of the required fields. */
export const requiredOf = (fields: Readonly<Record<string, Field>>): string[] =>
  Object.keys(fields).filter((name) => fields[name].required);

/** A list of integers from 0 to 2^64 − 1, exactly: `high · 10^9 + low`. Grows as needed and is reused for every line. */
export class WideIntegers {
  length = 0;
  high = new Float64Array(1024);
  low = new Uint32Array(1024);

  grow(): void {
    const { high, low } = this;
    this.high = new Float64Array(high.length * 2);
    this.high.set(high);
    this.low = new Uint32Array(low.length * 2);
    this.low.set(low);
  }

  text(i: number): string {
    return wideText(this.high[i], this.low[i]);
  }
}

/** `high · 10^9 + low` in decimal. */
export function wideText(high: number, low: number): string {
  return high === 0 ? String(low) : `${high}${String(low).padStart(9, "0")}`;
}

// 2^64 − 1 is 18446744073|709551615.
const largestHigh = 18446744073;
const largestLow = 709551615;
const shownCharacters = 40;
const deepestNesting = 200;
const noField = -1;
const longestLead = 256;

/** The bytes from the end of a value, or the start of the object, to the value of the next field. */
interface Lead {
  readonly bytes: KnownBytes;
  readonly field: number;
}

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const zero = 0x30;
const newline = 0x0a;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * Reads one JSON object per line directly from its bytes, field by field:
 *
 *     scan.begin(block);
 *     for (let name = scan.next(); name; name = scan.next()) { … scan.integer(0, 100) … }
 *
 * `next` skips undeclared fields and, at the end, reports missing required ones. Unlike JSON.parse
 * it builds no objects and keeps 64-bit integers exact. It accepts what JSON.parse accepts, except nesting deeper than 200.
 */
export class JsonLineScanner<Name extends string> {
  readonly #fields: readonly (Field & { readonly name: Name })[];
  #block: LineBlock | undefined;
  #bytes: Uint8Array = new Uint8Array();
  #at = 0;
  #valueStart = 0;
  /** The current field; before the first one `noField`. */
  #field = noField;
  /**
   * At 0 the bytes before the first field, at i + 1 those after field i, as on the first line where a known field follows.
   * They are usually the same on every line, so they are compared first.
   */
  readonly #leads: (Lead | undefined)[];
  /** One bit for each field. */
  #seen = 0;
  readonly #required: number;

  constructor(fields: Readonly<Record<Name, Field>>) {
    this.#fields = (Object.keys(fields) as Name[]).map((name) => ({ ...fields[name], name }));
    this.#leads = new Array(this.#fields.length + 1).fill(undefined);
    this.#required = this.#fields.reduce((bits, { required }, field) => (required ? bits | (1 << field) : bits), 0);
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
    this.#seen = 0;
    this.#field = noField;
  }

  /** Whether the current line is blank. */
  get isBlank(): boolean {
    this.#skipSpace();
    return this.#bytes[this.#at] === newline;
  }

  /** Moves to the next known field; undefined at the end of the line. */
  next(): Name | undefined {
    const lead = this.#leads[this.#field + 1];
    if (!lead?.bytes.isAt(this.#block!.view, this.#at)) return this.#search();
    this.#at += lead.bytes.length;
    this.#skipSpace();
    return this.#enter(lead.field);
  }

  #search(): Name | undefined {
    const bytes = this.#bytes;
    const start = this.#at;
    for (let isFirst = this.#field === noField, isNext = true; ; isFirst = isNext = false) {
      this.#skipSpace();
      if (isFirst) {
        if (bytes[this.#at] !== openBrace) throw this.#notAnObject();
        this.#at++;
        this.#skipSpace();
        if (bytes[this.#at] === closeBrace) return this.#endOfObject();
      } else {
        if (bytes[this.#at] === closeBrace) return this.#endOfObject();
        if (bytes[this.#at] !== comma) throw this.#syntaxError();
        this.#at++;
        this.#skipSpace();
      }
      const field = this.#name();
      this.#skipSpace();
      if (bytes[this.#at] !== colon) throw this.#syntaxError();
      this.#at++;
      this.#skipSpace();
      if (field !== undefined) {
        if (isNext && this.#at - start <= longestLead)
          this.#leads[this.#field + 1] ??= { bytes: new KnownBytes(bytes.subarray(start, this.#at)), field };
        return this.#enter(field);
      }
      this.#skipValue(0);
    }
  }

  /** The value of a known field begins here. */
  #enter(field: number): Name {
    const { name } = this.#fields[field];
    this.#field = field;
    this.#valueStart = this.#at;
    const bit = 1 << field;
    if ((this.#seen & bit) !== 0) throw this.error(`the name "${name}" occurs twice in one object`);
    this.#seen |= bit;
    return name;
  }

  /** The value as a number. */
  number(): number {
    const bytes = this.#bytes;
    const start = this.#at;
    let at = start;
    let value = 0;
    for (let digit = bytes[at] - zero; digit >= 0 && digit <= 9; digit = bytes[++at] - zero) value = value * 10 + digit;
    const count = at - start;
    if (count === 0 || count > 15 || (count > 1 && bytes[start] === zero) || continuesNumber(bytes[at])) {
      if (count === 0 && bytes[start] !== minus) throw this.unexpected();
      this.#skipNumber();
      return Number(this.#text(start, this.#at));
    }
    this.#at = at;
    return value;
  }

  /** The value as an integer of `least .. most`. */
  integer(least: number, most: number): number {
    const value = this.number();
    if (!(value >= least && value <= most && Number.isInteger(value))) throw this.unexpected();
    return value + 0; // JSON has −0
  }

  /** The JSON text of a string, an integer or null. */
  scalarText(): string {
    const start = this.#at;
    const first = this.#bytes[start];
    if (first === openBrace || first === openBracket) throw this.unexpected();
    this.#skipValue(0);
    return this.#text(start, this.#at);
  }

  /** The value as an array of integers from 0 to 2^64 − 1, all digits kept. */
  wideIntegers(into: WideIntegers): void {
    const bytes = this.#bytes;
    const { view } = this.#block!;
    let { high, low } = into;
    let at = this.#at;
    let count = 0;
    if (bytes[at] !== openBracket) throw this.unexpected();
    at = this.#spaceFrom(at + 1);
    while (bytes[at] !== closeBracket) {
      const start = at;
      let value = fourDigits(view, at);
      if (value < 0) value = 0;
      else at += 4;
      // Exact up to nine digits; more are read again.
      for (let digit = bytes[at] - zero; digit >= 0 && digit <= 9; digit = bytes[++at] - zero)
        value = (Math.imul(value, 10) + digit) | 0;
      if (count === low.length) {
        into.grow();
        ({ high, low } = into);
      }
      const digits = at - start;
      if (digits === 0 || digits > 9 || (digits > 1 && bytes[start] === zero) || continuesNumber(bytes[at])) {
        this.#at = start;
        this.#wideInteger(into, count);
        at = this.#at;
      } else {
        high[count] = 0;
        low[count] = value;
      }
      count++;
      if (bytes[at] <= 0x20) at = this.#spaceFrom(at);
      if (bytes[at] === comma) {
        at++;
        if (bytes[at] === 0x20) at++;
        if (bytes[at] <= 0x20) at = this.#spaceFrom(at);
        if (bytes[at] === closeBracket) throw this.#syntaxErrorAt(at);
      } else if (bytes[at] !== closeBracket) throw this.#syntaxErrorAt(at);
    }
    this.#at = at + 1;
    into.length = count;
  }

  /** The error for a current field with an invalid value. */
  unexpected(): TraceError {
    const { name, expected } = this.#fields[this.#field];
    return this.#unexpectedAt(name, this.#valueStart, expected);
  }

  /** An error about the contents of the line, or its syntax error if the line is not valid JSON. */
  error(message: string): TraceError {
    return this.invalid() ?? new TraceError(`${this.file}:${this.line}: ${message}`);
  }

  /** The syntax error of the line; undefined if it is valid JSON. */
  invalid(): TraceError | undefined {
    this.#at = this.#block!.start;
    this.#skipSpace();
    try {
      this.#skipValue(0);
      this.#skipSpace();
    } catch (error) {
      if (error instanceof TraceError) return error;
      throw error;
    }
    return this.#bytes[this.#at] === newline ? undefined : this.#syntaxError();
  }

  #unexpectedAt(what: string, start: number, expected: string): TraceError {
    const invalid = this.invalid();
    if (invalid) return invalid;
    this.#at = start;
    this.#skipValue(0);
    const text = this.#text(start, this.#at);
    const shown = text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
    return new TraceError(`${this.file}:${this.line}: ${what} is ${shown}, expected ${expected}`);
  }

  #endOfObject(): undefined {
    this.#at++;
    this.#skipSpace();
    if (this.#bytes[this.#at] !== newline) throw this.#syntaxError();
    this.#block!.endsAt(this.#at);
    const missing = this.#required & ~this.#seen;
    if (missing !== 0) {
      const { name, expected } = this.#fields[31 - Math.clz32(missing & -missing)];
      throw this.error(`${name} is missing, expected ${expected}`);
    }
    return undefined;
  }

  #notAnObject(): TraceError {
    return this.#unexpectedAt("the line", this.#at, "a JSON object");
  }

  /** Skips a field's name, from quote to quote; returns which known field it is. */
  #name(): number | undefined {
    const bytes = this.#bytes;
    if (bytes[this.#at] !== quote) throw this.#syntaxError();
    const start = this.#at;
    this.#skipString();
    const text = this.#text(start, this.#at);
    const name: string = text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);
    const field = this.#fields.findIndex((known) => known.name === name);
    return field < 0 ? undefined : field;
  }

  /** An array element that is not an integer of at most nine digits. */
  #wideInteger(into: WideIntegers, i: number): void {
    const bytes = this.#bytes;
    const start = this.#at;
    let at = start;
    while (isDigit(bytes[at])) at++;
    const high = decimal(bytes, start, at - 9);
    const low = decimal(bytes, Math.max(start, at - 9), at);
    const fits = at - start <= 20 && (high < largestHigh || (high === largestHigh && low <= largestLow));
    if (at === start || bytes[start] === zero || !fits || continuesNumber(bytes[at])) {
      this.#oddInteger(into, i);
      return;
    }
    into.high[i] = high;
    into.low[i] = low;
    this.#at = at;
  }

  /** An array element that is an integer in another notation, such as 5.0 or 5e3, or not an integer. */
  #oddInteger(into: WideIntegers, i: number): void {
    const start = this.#at;
    const isNumber = isDigit(this.#bytes[start]) || this.#bytes[start] === minus;
    if (isNumber) this.#skipNumber();
    const value = isNumber ? Number(this.#text(start, this.#at)) : -1;
    if (!Number.isSafeInteger(value) || value < 0) {
      const expected = `an integer from 0 to ${wideText(largestHigh, largestLow)}`;
      throw this.#unexpectedAt(`${this.#fields[this.#field].name}[${i}]`, start, expected);
    }
    into.high[i] = Math.floor(value / 1e9);
    into.low[i] = value % 1e9;
  }

  #skipSpace(): void {
    if (this.#bytes[this.#at] <= 0x20) this.#at = this.#spaceFrom(this.#at);
  }

  #spaceFrom(at: number): number {
    const bytes = this.#bytes;
    while (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0d) at++;
    return at;
  }

  /** Skips a value of any kind. */
  #skipValue(depth: number): void {
    const bytes = this.#bytes;
    const first = bytes[this.#at];
    if (first === quote) this.#skipString();
    else if (first === openBrace || first === openBracket) this.#skipNested(depth + 1);
    else if (first === minus || isDigit(first)) this.#skipNumber();
    else {
      const literal = literals.find((known) => startsWith(bytes, this.#at, known));
      if (!literal) throw this.#syntaxError();
      this.#at += literal.length;
    }
  }

  #skipNested(depth: number): void {
    if (depth > deepestNesting)
      throw new TraceError(`${this.file}:${this.line}: the line is nested deeper than ${deepestNesting} levels`);
    const bytes = this.#bytes;
    const isObject = bytes[this.#at] === openBrace;
    const close = isObject ? closeBrace : closeBracket;
    this.#at++;
    this.#skipSpace();
    if (bytes[this.#at] === close) {
      this.#at++;
      return;
    }
    for (;;) {
      if (isObject) {
        if (bytes[this.#at] !== quote) throw this.#syntaxError();
        this.#skipString();
        this.#skipSpace();
        if (bytes[this.#at] !== colon) throw this.#syntaxError();
        this.#at++;
        this.#skipSpace();
      }
      this.#skipValue(depth);
      this.#skipSpace();
      const found = bytes[this.#at];
      if (found !== comma && found !== close) throw this.#syntaxError();
      this.#at++;
      if (found === close) return;
      this.#skipSpace();
    }
  }

  #skipString(): void {
    const bytes = this.#bytes;
    let at = this.#at + 1;
    for (; bytes[at] !== quote; at++) {
      if (bytes[at] < 0x20) throw this.#syntaxErrorAt(at);
      if (bytes[at] !== backslash) continue;
      at++;
      if (bytes[at] === 0x75) {
        for (let last = at + 4; at < last; ) if (!isHexDigit(bytes[++at])) throw this.#syntaxErrorAt(at);
      } else if (!escapes.includes(bytes[at])) throw this.#syntaxErrorAt(at);
    }
    this.#at = at + 1;
  }

  #skipNumber(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    if (bytes[at] === minus) at++;
    if (bytes[at] === zero) at++;
    else at = this.#digitsFrom(at);
    if (bytes[at] === 0x2e) at = this.#digitsFrom(at + 1);
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      at++;
      if (bytes[at] === 0x2b || bytes[at] === minus) at++;
      at = this.#digitsFrom(at);
    }
    this.#at = at;
  }

  /** Skips one or more digits; returns their end. */
  #digitsFrom(start: number): number {
    let at = start;
    while (isDigit(this.#bytes[at])) at++;
    if (at === start) throw this.#syntaxErrorAt(at);
    return at;
  }

  #text(start: number, end: number): string {
    const { buffer, byteOffset } = this.#bytes;
    return Buffer.from(buffer, byteOffset + start, end - start).toString();
  }

  #syntaxErrorAt(at: number): TraceError {
    this.#at = at;
    return this.#syntaxError();
  }

  #syntaxError(): TraceError {
    const { file, line, start, end, terminated } = this.#block!;
    if (!terminated)
      return new TraceError(`${file}:${line}: the last line is cut short: it is not valid JSON and has no line end`);
    const column = this.#at - start + 1;
    const rest = this.#text(this.#at, Math.min(end, this.#at + 12)).replace(/�.*/, "");
    const found = this.#at >= end ? "the end of the line" : JSON.stringify(rest);
    return new TraceError(`${file}:${line}: invalid JSON: found ${found} at column ${column}`);
  }
}

const literals = ["true", "false", "null"].map((text) => Buffer.from(text));
const escapes = Buffer.from('"\\/bfnrt');

function startsWith(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}

function isDigit(byte: number): boolean {
  return byte >= zero && byte <= zero + 9;
}

/** Whether the byte is a digit, a dot or an exponent letter, so that the number continues. */
function continuesNumber(byte: number): boolean {
  return byte === 0x2e || byte === 0x65 || byte === 0x45 || isDigit(byte);
}

function isHexDigit(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

/** The decimal digits `bytes[start .. end)` as a number; 0 if there are none. */
function decimal(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 10 + bytes[at] - zero;
  return value;
}
