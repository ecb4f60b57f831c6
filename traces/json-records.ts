import { isUtf8 } from "node:buffer";
import { TraceError } from "../core/errors.ts";
import { type ByteSource, openBytes, shownPath } from "./bytes.ts";
import { refuseUtf16 } from "./encoding.ts";
import { isJsonSpace, type JsonFields, type JsonPlace, type JsonValue, parseJson, placeText } from "./json-value.ts";
import { unpackedChunks } from "./lines.ts";

const mostElementBytes = 1 << 28;
const firstBufferBytes = 1 << 16;
/** A file that begins with more bytes of white space is refused: reading them from a small gzip file could take minutes. */
const mostBlankBytes = 1 << 24;
const byteOrderMark = [0xef, 0xbb, 0xbf];
const shownCharacters = 40;

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * The objects of a JSON file, plain or gzip: the elements of one array, or objects one after the other, usually one a line.
 * One object at a time is in memory.
 *
 * @param file name of the file in messages
 * @throws TraceError with file and line, and in an array the number of the element; the signal's reason once it is aborted
 */
export async function* jsonRecords(file: string, source: ByteSource, signal?: AbortSignal): AsyncGenerator<JsonRecord> {
  const scanner = new ObjectScanner(file);
  let isFirst = true;
  for await (const chunk of unpackedChunks(file, source, scanner)) {
    if (signal) await new Promise((resume) => setImmediate(resume));
    signal?.throwIfAborted();
    if (isFirst) refuseUtf16(file, chunk);
    isFirst = false;
    scanner.add(chunk);
    for (let record = scanner.next(); record; record = scanner.next()) yield record;
  }
  scanner.end();
}

/** The JSON objects of a file that is opened, and closed afterwards; see `jsonRecords`. */
export async function* fileRecords(path: string, signal?: AbortSignal): AsyncGenerator<JsonRecord> {
  const source = await openBytes(path, { signal });
  try {
    yield* jsonRecords(shownPath(path), source, signal);
  } finally {
    await source.close();
  }
}

/** A JSON object of a file, with access to its fields by type. A field that is null counts as absent. */
export class JsonRecord {
  readonly #fields: JsonFields;
  readonly #place: JsonPlace;
  readonly #within: string;

  constructor(fields: JsonFields, place: JsonPlace, within = "") {
    this.#fields = fields;
    this.#place = place;
    this.#within = within;
  }

  get file(): string {
    return this.#place.file;
  }

  /** File and line, for messages. */
  get place(): string {
    return placeText(this.#place);
  }

  value(name: string): JsonValue | undefined {
    return this.#fields[name] ?? undefined;
  }

  has(name: string): boolean {
    return this.value(name) !== undefined;
  }

  text(name: string, expected = "a string"): string {
    const value = this.#required(name, expected);
    if (typeof value !== "string") throw this.unexpected(name, expected);
    return value;
  }

  number(name: string, expected: string, least = Number.NEGATIVE_INFINITY): number {
    const value = this.#required(name, expected);
    if (typeof value !== "number" || !(value >= least && value < Number.POSITIVE_INFINITY))
      throw this.unexpected(name, expected);
    return value + 0; // JSON has −0
  }

  integer(name: string, least: number, most: number): number {
    const expected = `an integer from ${least} to ${most}`;
    const value = this.number(name, expected, least);
    if (value > most || !Number.isInteger(value)) throw this.unexpected(name, expected);
    return value;
  }

  /** The field as an object. */
  record(name: string, expected = "an object"): JsonRecord {
    const value = this.#required(name, expected);
    if (!isFields(value)) throw this.unexpected(name, expected);
    return new JsonRecord(value, this.#place, `${this.#within}${name}.`);
  }

  /** The field if it is an object. */
  optionalRecord(name: string): JsonRecord | undefined {
    const value = this.value(name);
    return value !== undefined && isFields(value) ? this.record(name) : undefined;
  }

  /** The field as a list of objects. */
  records(name: string, expected = "an array of objects"): JsonRecord[] {
    const value = this.#required(name, expected);
    if (!Array.isArray(value)) throw this.unexpected(name, expected);
    return value.map((one, i) => {
      if (!isFields(one)) throw this.error(`${this.#within}${name}[${i}] is ${shown(one)}, expected an object`);
      return new JsonRecord(one, this.#place, `${this.#within}${name}[${i}].`);
    });
  }

  /** The field as a list of numbers. */
  numbers(name: string, isValid: (value: number) => boolean, expected: string): number[] {
    const values = this.#required(name, `an array of ${expected}`);
    if (!Array.isArray(values)) throw this.unexpected(name, `an array of ${expected}`);
    for (const [i, value] of values.entries())
      if (typeof value !== "number" || !isValid(value))
        throw this.error(`${this.#within}${name}[${i}] is ${shown(value)}, expected ${expected}`);
    return values as number[];
  }

  /** The error of a field that has an invalid value. */
  unexpected(name: string, expected: string): TraceError {
    const value = this.#fields[name];
    const found = value === undefined ? "missing" : shown(value);
    return this.error(`${this.#within}${name} is ${found}, expected ${expected}`);
  }

  error(message: string): TraceError {
    return new TraceError(`${placeText(this.#place)}: ${message}`);
  }

  #required(name: string, expected: string): JsonValue {
    const value = this.#fields[name];
    if (value === undefined) throw this.unexpected(name, expected);
    return value;
  }
}

function isFields(value: JsonValue): value is JsonFields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A JSON value for a message. */
function shown(value: JsonValue): string {
  const text = JSON.stringify(value);
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}

/** Finds the objects of a file in its bytes, which arrive in chunks of any size. */
class ObjectScanner {
  readonly #file: string;
  // buffer    [.... #start ......... #at ...... #filled)
  // content    read  of the element   not scanned yet
  #buffer = Buffer.alloc(firstBufferBytes);
  #at = 0;
  #filled = 0;
  /** Start of the current object; −1 between objects. */
  #start = -1;
  #startLine = 0;
  /** Number of the current line, from 1. */
  line = 1;
  #isEmpty = true;
  #blankBytes = 0;
  #depth = 0;
  #inString = false;
  #elements = 0;
  #layout: "unknown" | "objects" | "array" | "closed array" = "unknown";
  /** In an array: whether an element may begin, after the bracket or a comma. */
  #mayBegin = true;

  constructor(file: string) {
    this.#file = file;
  }

  add(chunk: Uint8Array): void {
    this.#isEmpty = false;
    const keep = this.#start < 0 ? Math.min(this.#at, this.#filled) : this.#start;
    if (this.#filled + chunk.length > this.#buffer.length) this.#makeRoom(keep, chunk.length);
    this.#buffer.set(chunk, this.#filled);
    this.#filled += chunk.length;
  }

  /** The next complete object. */
  next(): JsonRecord | undefined {
    if (this.#start < 0 && !this.#begin()) return undefined;
    if (!this.#finish()) return undefined;
    const { place } = this;
    const start = this.#start;
    this.#start = -1;
    if (!isUtf8(this.#buffer.subarray(start, this.#at)))
      throw new TraceError(`${placeText(place)}: the text is not UTF-8`);
    return new JsonRecord(parseJson(this.#buffer, start, this.#at, place) as JsonFields, place);
  }

  /** @throws TraceError if the file ends too early or has no object */
  end(): void {
    if (this.#isEmpty) throw new TraceError(`${this.#file}: the file is empty, expected a trace`);
    if (this.#start >= 0) {
      parseJson(this.#buffer, this.#start, this.#filled, this.place);
      throw new TraceError(`${placeText(this.place)}: the file ends within the value`);
    }
    if (this.#layout === "array")
      throw new TraceError(`${this.#file}:${this.line}: the file ends before its array, expected "]"`);
    if (this.#elements === 0)
      throw new TraceError(
        `${this.#file}: no requests, only ${this.#layout === "unknown" ? "blank lines" : "an empty array"}`,
      );
  }

  get place(): JsonPlace {
    return {
      file: this.#file,
      line: this.#startLine,
      ...(this.#layout === "array" && { element: this.#elements }),
    };
  }

  #makeRoom(keep: number, needed: number): void {
    const kept = this.#filled - keep;
    if (kept + needed > mostElementBytes)
      throw new TraceError(`${placeText(this.place)}: the object is longer than ${mostElementBytes >> 20} MiB`);
    const from = this.#buffer;
    if (kept + needed > from.length) this.#buffer = Buffer.alloc(2 * (kept + needed));
    this.#buffer.set(from.subarray(keep, this.#filled));
    this.#at -= keep;
    this.#filled = kept;
    if (this.#start >= 0) this.#start = 0;
  }

  /** Moves to the start of the next object; false if the bytes end before it. */
  #begin(): boolean {
    for (; this.#at < this.#filled; this.#at++) {
      const byte = this.#buffer[this.#at];
      if (byte === 0x0a) this.line++;
      if (isJsonSpace(byte) || this.#isByteOrderMark(byte)) {
        if (++this.#blankBytes > mostBlankBytes && this.#elements === 0) throw this.#blank();
        continue;
      }
      if (this.#layout === "unknown" && byte === openBracket) this.#layout = "array";
      else if (this.#layout === "array" && byte === comma && !this.#mayBegin) this.#mayBegin = true;
      else if (this.#layout === "array" && byte === closeBracket && !(this.#mayBegin && this.#elements > 0))
        this.#layout = "closed array";
      else if (byte === openBrace && this.#mayBegin && this.#layout !== "closed array") {
        if (this.#layout === "unknown") this.#layout = "objects";
        this.#mayBegin = this.#layout === "objects";
        this.#elements++;
        this.#start = this.#at;
        this.#startLine = this.line;
        return true;
      } else throw this.#notAnObject();
    }
    return false;
  }

  /** Moves to the end of the current object; false if the bytes end before it. */
  #finish(): boolean {
    const bytes = this.#buffer;
    const filled = this.#filled;
    let at = this.#at;
    let depth = this.#depth;
    let inString = this.#inString;
    for (; at < filled; at++) {
      const byte = bytes[at];
      if (inString) {
        if (byte === quote) inString = false;
        else if (byte === backslash) at++;
        else if (byte < 0x20) parseJson(bytes, this.#start, at + 1, this.place);
      } else if (byte === quote) inString = true;
      else if (byte === openBrace || byte === openBracket) depth++;
      else if (byte === 0x0a) this.line++;
      else if ((byte === closeBrace || byte === closeBracket) && --depth === 0) break;
    }
    this.#depth = depth;
    this.#inString = inString;
    const isWhole = at < filled;
    this.#at = isWhole ? at + 1 : at;
    return isWhole;
  }

  /** Whether the byte is one of the three that mark UTF-8 at the start of a file. */
  #isByteOrderMark(byte: number): boolean {
    return this.#layout === "unknown" && byte === byteOrderMark[this.#blankBytes];
  }

  #blank(): TraceError {
    return new TraceError(`${this.#file}: the first ${mostBlankBytes >> 20} MiB are blank, expected a trace`);
  }

  #notAnObject(): TraceError {
    const rest = this.#buffer.toString("utf8", this.#at, Math.min(this.#filled, this.#at + shownCharacters));
    const line = rest.split("\n", 1)[0].replace(/�.*/s, "");
    const expected =
      this.#layout === "unknown"
        ? "a JSON object or an array of objects"
        : this.#layout === "closed array"
          ? "nothing after the array"
          : this.#layout === "objects" || this.#mayBegin
            ? "an object"
            : '"," or "]"';
    return new TraceError(`${this.#file}:${this.line}: found ${JSON.stringify(line)}, expected ${expected}`);
  }
}
