import { TraceError } from "../core/errors.ts";

/** A JSON object with the place where it was found, for messages. */
export class JsonRecord {
  readonly #object: Readonly<Record<string, unknown>>;
  /** `file:line: ` and the path of the object within the line. */
  readonly #at: string;
  readonly #path: string;

  constructor(value: unknown, at: string, path = "") {
    this.#at = at;
    this.#path = path;
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new TraceError(`${at}: ${path || "the line"} is ${shown(value)}, expected a JSON object`);
    this.#object = value as Record<string, unknown>;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#object, name);
  }

  /** A number of `least .. most`. */
  number(name: string, least: number, most: number, expected = `a number from ${least} to ${most}`): number {
    const value = this.#object[name];
    if (typeof value === "number" && value >= least && value <= most) return value;
    throw this.unexpected(name, expected);
  }

  integer(name: string, least: number, most: number, expected = `an integer from ${least} to ${most}`): number {
    const value = this.number(name, least, most, expected);
    if (!Number.isInteger(value)) throw this.unexpected(name, expected);
    return value;
  }

  array(name: string, expected = "an array"): readonly unknown[] {
    const value = this.#object[name];
    if (Array.isArray(value)) return value;
    throw this.unexpected(name, expected);
  }

  text(name: string): string {
    const value = this.#object[name];
    if (typeof value === "string") return value;
    throw this.unexpected(name, "a string");
  }

  unexpected(name: string, expected: string): TraceError {
    const where = this.#path === "" ? name : `${this.#path}.${name}`;
    const value = this.#object[name];
    if (value === undefined) return new TraceError(`${this.#at}: ${where} is missing, expected ${expected}`);
    return new TraceError(`${this.#at}: ${where} is ${shown(value)}, expected ${expected}`);
  }

  error(message: string): TraceError {
    return new TraceError(`${this.#at}: ${this.#path === "" ? "" : `${this.#path}: `}${message}`);
  }
}

const shownCharacters = 40;

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "undefined";
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}

const quote = 0x22;
const backslash = 0x5c;

/**
 * The first name that an object of a valid JSON text has twice, at any depth; undefined if there is none. `JSON.parse` takes
 * the last value of such a name without an error.
 */
export function repeatedName(json: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === 0x7b) open.push(new Set());
    else if (code === 0x5b) open.push(undefined);
    else if (code === 0x7d || code === 0x5d) open.pop();
    else if (code === quote) {
      const start = at++;
      for (; json.charCodeAt(at) !== quote; at++) if (json.charCodeAt(at) === backslash) at++;
      const names = open.at(-1);
      if (names === undefined) continue;
      let next = at + 1;
      while (json.charCodeAt(next) <= 0x20) next++;
      if (json.charCodeAt(next) !== 0x3a) continue;
      const text = json.slice(start, at + 1);
      const name: string = text.includes("\\") ? JSON.parse(text) : text.slice(1, -1);
      if (names.has(name)) return name;
      names.add(name);
    }
  }
  return undefined;
}
