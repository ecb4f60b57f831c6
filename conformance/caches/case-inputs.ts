import type { Operation } from "../case.ts";
import { integer, name, oneOf, shown, tokens, Unsupported } from "../values.ts";

/**
 * The tokens that `append` operations add to the request after operation `at`, until one of the operations `begins` restarts
 * it.
 */
export function appendedTokens(
  ops: readonly Operation[],
  at: number,
  field: string,
  id: string,
  begins: readonly string[],
): number[] {
  const appended: number[] = [];
  for (const { name: op, inputs } of ops.slice(at + 1)) {
    if (inputs[field] === undefined || name(inputs[field], field) !== id) continue;
    if (begins.includes(op)) break;
    if (op !== "append") continue;
    for (const token of tokens(inputs["tokens"])) appended.push(token);
  }
  return appended;
}

/** Looks up a name. @throws Unsupported if it is unknown. */
export function lookUp<T>(all: ReadonlyMap<string, T>, value: unknown, what: string): T {
  const found = all.get(name(value, what));
  if (found === undefined) throw new Unsupported(`${what} ${shown(value)} is not known`);
  return found;
}

const maxTokens = 2 ** 24;

/** A number of tokens within the supported range. @throws Unsupported */
export function tokenCount(value: unknown, what: string): number {
  const count = integer(value, what);
  if (count > maxTokens) throw new Unsupported(`${what} is ${count}, expected at most ${maxTokens}`);
  return count;
}

/** A boolean setting; `otherwise` if it is absent. @throws Unsupported */
export function isOn(value: unknown, what: string, otherwise = false): boolean {
  return value === undefined ? otherwise : oneOf<boolean>(value, what, [true, false]);
}
