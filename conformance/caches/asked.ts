import type { Operation } from "../case.ts";
import { integer, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/** The tokens that operations `append` add to the request from operation `at` on, until it is begun again by one of `begins`. */
export function answerAfter(
  ops: readonly Operation[],
  at: number,
  field: string,
  id: string,
  begins: readonly string[],
): number[] {
  const answer: number[] = [];
  for (const { name: op, inputs } of ops.slice(at + 1)) {
    if (inputs[field] === undefined || name(inputs[field], field) !== id) continue;
    if (begins.includes(op)) break;
    if (op !== "append") continue;
    for (const token of tokens(inputs["tokens"])) answer.push(token);
  }
  return answer;
}

/** Looks up a name. @throws Unsupported if it is unknown. */
export function known<T>(all: ReadonlyMap<string, T>, value: unknown, what: string): T {
  const found = all.get(name(value, what));
  if (found === undefined) throw new Unsupported(`${what} ${shown(value)} is not known`);
  return found;
}

const mostTokens = 2 ** 24;

/** A number of tokens within the supported range. @throws Unsupported */
export function tokenCount(value: unknown, what: string): number {
  const count = integer(value, what);
  if (count > mostTokens) throw new Unsupported(`${what} is ${count}, expected at most ${mostTokens}`);
  return count;
}

/** A setting that is true or false, or not given. @throws Unsupported */
export function isOn(value: unknown, what: string, otherwise = false): boolean {
  return value === undefined ? otherwise : oneOf<boolean>(value, what, [true, false]);
}
