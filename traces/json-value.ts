import { TraceError } from "../core/errors.ts";

/** A parsed JSON value. Objects have no prototype, so that any field name is an ordinary property. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonFields;
export interface JsonFields {
  readonly [name: string]: JsonValue;
}

const deepestNesting = 200;
const shownBytes = 12;

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** Position of a value in its file, for messages. */
export interface JsonPlace {
  readonly file: string;
  /** Line of the value's first byte, from 1. */
  readonly line: number;
  /** Number of the value in an array that is the whole file, from 1. */
  readonly element?: number;
}

/** `file:line`, and the element's number if there is one. */
export function placeText({ file, line, element }: JsonPlace, atLine = line): string {
  return element === undefined ? `${file}:${atLine}` : `${file}:${atLine}: element ${element}`;
}

/**
 * Parses the JSON value in `bytes[start .. end)`, which must be UTF-8. Unlike JSON.parse it refuses objects that have a
 * name twice, and its errors state the line.
 *
 * @throws TraceError with file, line and column
 */
export function parseJson(bytes: Buffer, start: number, end: number, place: JsonPlace): JsonValue {
  const parser = new JsonParser(bytes, start, end, place);
  const value = parser.value(0);
  parser.end();
  return value;
}

class JsonParser {
  readonly #bytes: Buffer;
  readonly #start: number;
  readonly #end: number;
  readonly #place: JsonPlace;
  #at: number;

  constructor(bytes: Buffer, start: number, end: number, place: JsonPlace) {
    this.#bytes = bytes;
    this.#start = this.#at = start;
    this.#end = end;
    this.#place = place;
  }

  value(depth: number): JsonValue {
    this.#skipSpace();
    const first = this.#peek();
    if (first === quote) return this.#string();
    if (first === openBrace) return this.#object(depth + 1);
    if (first === openBracket) return this.#array(depth + 1);
    if (first === minus || isDigit(first)) return this.#number();
    return this.#literal();
  }

  /** Checks that nothing but white space follows. */
  end(): void {
    this.#skipSpace();
    if (this.#at < this.#end) throw this.#unexpected();
  }

  #object(depth: number): JsonFields {
    this.#enter(depth);
    const fields: Record<string, JsonValue> = Object.create(null);
    if (this.#closes(closeBrace)) return fields;
    do {
      this.#skipSpace();
      if (this.#peek() !== quote) throw this.#unexpected();
      const at = this.#at;
      const name = this.#string();
      if (name in fields) throw this.#error(`the name ${JSON.stringify(name)} occurs twice in one object`, at);
      this.#skipSpace();
      if (this.#peek() !== colon) throw this.#unexpected();
      this.#at++;
      fields[name] = this.value(depth);
    } while (this.#continues(closeBrace));
    return fields;
  }

  #array(depth: number): JsonValue[] {
    this.#enter(depth);
    const values: JsonValue[] = [];
    if (this.#closes(closeBracket)) return values;
    do values.push(this.value(depth));
    while (this.#continues(closeBracket));
    return values;
  }

  #enter(depth: number): void {
    if (depth > deepestNesting) throw this.#error(`the value is nested deeper than ${deepestNesting} levels`, this.#at);
    this.#at++;
  }

  /** Skips the closing bracket of an empty list, if it follows. */
  #closes(bracket: number): boolean {
    this.#skipSpace();
    if (this.#peek() !== bracket) return false;
    this.#at++;
    return true;
  }

  /** Skips a comma or the closing bracket; whether it was a comma. */
  #continues(bracket: number): boolean {
    this.#skipSpace();
    const found = this.#peek();
    if (found !== comma && found !== bracket) throw this.#unexpected();
    this.#at++;
    return found === comma;
  }

  #string(): string {
    const bytes = this.#bytes;
    const end = this.#end;
    const start = this.#at;
    let at = start + 1;
    let hasEscapes = false;
    for (; at < end; at++) {
      const byte = bytes[at];
      if (byte === quote) break;
      if (byte < 0x20) throw this.#unexpected(at);
      if (byte !== backslash) continue;
      hasEscapes = true;
      at++;
    }
    if (at >= end) throw this.#unexpected(end);
    this.#at = at + 1;
    if (!hasEscapes) return bytes.toString("utf8", start + 1, at);
    try {
      return JSON.parse(bytes.toString("utf8", start, at + 1)) as string;
    } catch {
      throw this.#error("a string has an invalid escape", start);
    }
  }

  #number(): number {
    const start = this.#at;
    let at = start + 1;
    while (at < this.#end && isNumberByte(this.#bytes[at])) at++;
    const text = this.#bytes.toString("latin1", start, at);
    if (!/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) throw this.#unexpected();
    this.#at = at;
    return Number(text);
  }

  #literal(): boolean | null {
    for (const [text, value] of literals) {
      if (this.#bytes.toString("latin1", this.#at, Math.min(this.#end, this.#at + text.length)) !== text) continue;
      this.#at += text.length;
      return value;
    }
    throw this.#unexpected();
  }

  /** The next byte; −1 at the end. */
  #peek(): number {
    return this.#at < this.#end ? this.#bytes[this.#at] : -1;
  }

  #skipSpace(): void {
    while (this.#at < this.#end && isJsonSpace(this.#bytes[this.#at])) this.#at++;
  }

  #unexpected(at = this.#at): TraceError {
    if (at >= this.#end) return this.#error("the file ends within the value", at);
    const rest = this.#bytes.toString("utf8", at, Math.min(this.#end, at + shownBytes)).replace(/�.*/s, "");
    return this.#error(`invalid JSON: found ${JSON.stringify(rest)}`, at);
  }

  #error(message: string, at: number): TraceError {
    let { line } = this.#place;
    let lineStart = this.#start;
    for (let i = this.#start; i < at; i++) {
      if (this.#bytes[i] !== 0x0a) continue;
      line++;
      lineStart = i + 1;
    }
    return new TraceError(`${placeText(this.#place, line)}: ${message} at column ${at - lineStart + 1}`);
  }
}

const literals = [
  ["true", true],
  ["false", false],
  ["null", null],
] as const;

export function isJsonSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function isNumberByte(byte: number): boolean {
  return isDigit(byte) || byte === 0x2e || byte === 0x65 || byte === 0x45 || byte === 0x2b || byte === minus;
}
