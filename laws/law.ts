import { isDeepStrictEqual } from "node:util";

/** Something that must hold for every plug-in of a kind, whatever it decides. */
export interface Law {
  /** As `--json` has it. */
  readonly name: string;
  /** What holds, as a sentence. */
  readonly says: string;
}

/** A law does not hold; the message says where, with the numbers. */
export class LawBroken extends Error {
  override name = "LawBroken";
  readonly law: Law;

  constructor(law: Law, message: string) {
    super(message);
    this.law = law;
  }
}

/** The message is a function only where building it costs something. */
export function require(law: Law, condition: boolean, message: string | (() => string)): asserts condition {
  if (!condition) throw new LawBroken(law, typeof message === "string" ? message : message());
}

/** Fails unless both are equal in all that they consist of. */
export function same(law: Law, what: string, actual: unknown, expected: unknown): void {
  if (isDeepStrictEqual(actual, expected)) return;
  const differs = firstDifference(actual, expected);
  throw new LawBroken(law, `${what}: ${differs ?? `${shown(actual)}, expected ${shown(expected)}`}`);
}

/** Fails unless both are the same but for what summing in another order does. */
export function near(law: Law, what: string, actual: number, expected: number): void {
  require(law, Math.abs(actual - expected) < 5e-10, () => `${what}: ${actual}, expected ${expected}`);
}

const longest = 200;

export function shown(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text === undefined) return String(value);
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** Of two long lists, where they part. */
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
