import { isDeepStrictEqual } from "node:util";

/** A property that every plug-in of a kind must satisfy, whatever it decides. */
export interface Law {
  /** Identifier, as in the `--json` output. */
  readonly name: string;
  /** The property, as a sentence. */
  readonly statement: string;
}

/** A law does not hold; the message states the place and the numbers. */
export class LawBroken extends Error {
  override name = "LawBroken";
  readonly law: Law;

  constructor(law: Law, message: string) {
    super(message);
    this.law = law;
  }
}

/** Throws `LawBroken` unless the condition holds; the message may be a function if it is expensive to build. */
export function require(law: Law, condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new LawBroken(law, typeof message === "string" ? message : message());
}

/** Throws `LawBroken` unless both values are deeply equal. */
export function same(law: Law, what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  const differs = firstDifference(actual, expected);
  throw new LawBroken(law, `${what}: ${differs ?? `${shown(actual)}, expected ${shown(expected)}`}`);
}

/** Throws `LawBroken` unless both numbers are equal up to rounding errors. */
export function near(law: Law, what: string, actual: number, expected: number): void {
  require(law, Math.abs(actual - expected) < 5e-10, () => `${what}: ${actual}, expected ${expected}`);
}

const longest = 200;

export function shown(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text === undefined) return String(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** The first difference of two long lists. */
function firstDifference(actual: unknown, expected: unknown): string | undefined {
  if (!Array.isArray(actual) || !Array.isArray(expected)) return undefined;
  if (JSON.stringify([actual, expected])?.length <= longest) return undefined;
  for (let at = 0; at < Math.max(actual.length, expected.length); at++) {
    if (isDeepStrictEqual(actual[at], expected[at])) continue;
    const is = (list: unknown[]) => (at < list.length ? shown(list[at]) : "nothing more");
    return `at ${at}: ${is(actual)}, expected ${is(expected)}`;
  }
  return undefined;
}
