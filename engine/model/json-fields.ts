import { readFileSync, statSync } from "node:fs";
import { InputError } from "../../core/errors.ts";

/** The reason why reading a file failed, without the rest of Node's message. */
export function reasonOf(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES") return "permission denied";
  if (code === "EISDIR") return "it is a folder";
  return code ?? String((error as Error).message ?? error);
}

/** @throws InputError if the file cannot be read */
export function readText(path: string): string {
  try {
    if (statSync(path).isCharacterDevice()) throw new Error("is a device");
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new InputError(`${path}: ${reasonOf(error)}`);
  }
}

/**
 * The fields of a JSON object, validated when they are read. If several names are given, the first is the current name of the
 * field, the others are its older names.
 */
export class Fields {
  readonly path: string;
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #within: string;

  /** @throws InputError if the file cannot be read or is no JSON object. */
  static read(path: string): Fields {
    const text = readText(path);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new InputError(`${path}: not JSON: ${(error as Error).message.replaceAll(/\s+/g, " ")}`);
    }
    if (!isObject(value)) throw new InputError(`${path}: expected a JSON object, found ${shown(value)}`);
    return new Fields(path, value);
  }

  constructor(path: string, values: Readonly<Record<string, unknown>>, within = "") {
    this.path = path;
    this.#values = values;
    this.#within = within;
  }

  names(): string[] {
    return Object.keys(this.#values);
  }

  has(...names: string[]): boolean {
    return this.raw(...names) !== undefined;
  }

  /** The value without validation; null counts as absent. */
  raw(...names: string[]): unknown {
    for (const name of names) if (this.#values[name] !== undefined) return this.#values[name] ?? undefined;
    return undefined;
  }

  /** Whether the field is present and null. */
  isNull(name: string): boolean {
    return this.#values[name] === null;
  }

  count(...names: string[]): number {
    return this.#checked(names, "a positive integer", (value) => Number.isSafeInteger(value) && (value as number) > 0);
  }

  countOr(fallback: number, ...names: string[]): number {
    return this.has(...names) ? this.count(...names) : fallback;
  }

  positive(...names: string[]): number {
    return this.#checked(names, "a positive number", (value) => Number.isFinite(value) && (value as number) > 0);
  }

  positiveOr(fallback: number, ...names: string[]): number {
    return this.has(...names) ? this.positive(...names) : fallback;
  }

  flag(name: string, fallback: boolean): boolean {
    if (!this.has(name)) return fallback;
    return this.#checked([name], "true or false", (value) => typeof value === "boolean");
  }

  text(...names: string[]): string {
    return this.#checked(names, "a string", (value) => typeof value === "string");
  }

  textOr(fallback: string, ...names: string[]): string {
    return this.has(...names) ? this.text(...names) : fallback;
  }

  /** A token id or a list of them; empty if absent. */
  tokens(name: string): number[] {
    const isToken = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
    const isTokens = (value: unknown) => (Array.isArray(value) ? value.every(isToken) : isToken(value));
    if (!this.has(name)) return [];
    return [this.#checked<number | number[]>([name], "a token id or a list of them", isTokens)].flat();
  }

  object(name: string): Fields | undefined {
    if (!this.has(name)) return undefined;
    const value = this.#checked<Record<string, unknown>>([name], "an object", isObject);
    return new Fields(this.path, value, `${this.#within}${name}.`);
  }

  /** The error of an invalid field, in one line. */
  wrong(name: string, expected: string): InputError {
    const value = this.#values[name];
    return new InputError(`${this.path}: ${this.#within}${name} is ${shown(value)}, expected ${expected}`);
  }

  #checked<T = never>(names: string[], expected: string, isRight: (value: unknown) => boolean): T {
    const name = names.find((one) => this.#values[one] !== undefined) ?? names[0];
    if (this.#values[name] === undefined)
      throw new InputError(`${this.path}: ${this.#within}${name} is missing, expected ${expected}`);
    if (!isRight(this.#values[name])) throw this.wrong(name, expected);
    return this.#values[name] as T;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A JSON value for a message. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
