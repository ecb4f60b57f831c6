import { InputError } from "../core/errors.ts";
import { BlockNames } from "./block-names.ts";
import { type Case, caseFields, type Operation } from "./case.ts";
import { agrees } from "./compare.ts";
import { families } from "./families/index.ts";
import type { Family, Found } from "./family.ts";
import { shown, Unsupported } from "./values.ts";

/** The verdict of a case. */
export interface Verdict {
  readonly verdict: "passed" | "failed" | "skipped";
  /** For a case that did not pass: the expected and found values, or the unsupported input. */
  readonly why?: string;
  /** The operation that decided it, from 1. */
  readonly op?: number;
}

/**
 * Runs one case. A case with unsupported input or without expectations is skipped, never passed. An error of the program,
 * including a broken invariant, is a failure of this case alone.
 */
export function runCase(worked: Case, known: readonly Family[] = families): Verdict {
  const family = known.find(({ name }) => name === worked.family);
  if (family === undefined) {
    const names = known.map(({ name }) => name);
    return { verdict: "skipped", why: `unknown family "${worked.family}"; ${knownNames(names)}` };
  }
  const verdict = unknownIn(worked, family) ?? runOn(family, worked);
  const isEmpty = verdict.verdict === "passed" && !worked.ops.some((op) => expectsSomething(op, family));
  return isEmpty ? { verdict: "skipped", why: "has no expectations" } : verdict;
}

function expectsSomething({ name, inputs, expect }: Operation, family: Family): boolean {
  const claims = (family.ops[name].claims ?? []).map((input) => inputs[input]);
  return Object.keys(expect).length > 0 || claims.some((claim) => Array.isArray(claim) && claim.length > 0);
}

/** The known names, for messages. */
const knownNames = (known: readonly string[]) =>
  known.length === 0 ? "there is none" : `known: ${known.toSorted().join(", ")}`;

/** Skips a case with an unknown field, or with a setting, operation or field that the family does not have. */
function unknownIn({ config, ops, unknown = [] }: Case, family: Family): Verdict | undefined {
  if (unknown.length > 0)
    return { verdict: "skipped", why: `unknown field "${unknown[0]}" of the case; ${knownNames(caseFields)}` };
  const unknownName = (names: readonly string[], known: readonly string[]) =>
    names.find((name) => !known.includes(name));
  const setting = unknownName(Object.keys(config), family.configKeys);
  if (setting !== undefined)
    return {
      verdict: "skipped",
      why: `unknown setting "${setting}" of ${family.name}; ${knownNames(family.configKeys)}`,
    };
  for (const [i, { name, inputs, expect }] of ops.entries()) {
    const skipped = (why: string): Verdict => ({ verdict: "skipped", why: `op ${i + 1}: ${why}`, op: i + 1 });
    if (!Object.hasOwn(family.ops, name))
      return skipped(`unknown operation "${name}" of ${family.name}; ${knownNames(Object.keys(family.ops))}`);
    const spec = family.ops[name];
    const input = unknownName(Object.keys(inputs), spec.inputs);
    if (input !== undefined) return skipped(`unknown input "${input}" of ${name}; ${knownNames(spec.inputs)}`);
    const fields = Object.keys(spec.expects);
    const field = unknownName(Object.keys(expect), fields);
    if (field !== undefined) return skipped(`unknown expectation "${field}" of ${name}; ${knownNames(fields)}`);
  }
  return undefined;
}

function runOn(family: Family, { config, ops }: Case): Verdict {
  const blocks = new BlockNames();
  let at = 0;
  try {
    const instance = family.start(config, ops, blocks);
    for (const op of ops) {
      at++;
      const why = difference(family, op, instance.run(op.name, op.inputs), blocks);
      if (why !== undefined) return { verdict: "failed", why: `op ${at} (${op.name}): ${why}`, op: at };
    }
    return { verdict: "passed" };
  } catch (error) {
    const { verdict, message } = verdictOf(error);
    return at === 0
      ? { verdict, why: message }
      : { verdict, why: `op ${at} (${ops[at - 1].name}): ${message}`, op: at };
  }
}

/** Input that kvlab refuses makes a case skipped, like input that the family refuses; any other error makes it failed. */
function verdictOf(error: unknown): { verdict: "failed" | "skipped"; message: string } {
  if (error instanceof Unsupported || error instanceof InputError)
    return { verdict: "skipped", message: error.message };
  return { verdict: "failed", message: error instanceof Error ? `${error.name}: ${error.message}` : String(error) };
}

/** The first field whose found value differs from the expected one. */
function difference(family: Family, { name, expect }: Operation, all: Found, blocks: BlockNames): string | undefined {
  for (const [field, expected] of Object.entries(expect)) {
    const value = Object.hasOwn(all, field) ? all[field] : undefined;
    const found = typeof value === "function" ? value(expected) : value;
    if (agrees(family.ops[name].expects[field], expected, found, blocks)) continue;
    return `${field}: expected ${shown(expected)}, found ${shown(found)}`;
  }
  return undefined;
}
