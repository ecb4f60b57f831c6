import { InputError } from "../core/errors.ts";
import { type Fields, isRecord, isRemark, shown } from "./values.ts";

/** One operation of a case. */
export interface Operation {
  readonly name: string;
  /** Inputs: all fields except `op`, `expect` and remarks. */
  readonly inputs: Fields;
  /** Expected results; only these fields are compared. */
  readonly expect: Fields;
}

/** One case: operations on one component of a system, with the results of the system's own tests or source. */
export interface Case {
  readonly id: string;
  readonly family: string;
  readonly title: string;
  readonly config: Fields;
  readonly ops: readonly Operation[];
  /** Unknown fields; a case with any of them is skipped. */
  readonly unknown?: readonly string[];
}

/** All fields of a case; `comment` and `notes` are remarks. */
export const caseFields: readonly string[] = [
  "basis",
  "comment",
  "config",
  "family",
  "id",
  "notes",
  "ops",
  "source",
  "title",
];

/** Maximum nesting of a case; recursive functions would overflow the stack on deeper ones. */
const maxDepth = 100;

/** Reads the text of one case file. @throws InputError with the file, the value found and the expected one. */
export function parseCase(text: string, file: string): Case {
  const fail = (what: string): never => {
    throw new InputError(`${file}: ${what}`);
  };
  const value = parseJson(text, fail);
  if (!isRecord(value)) return fail(`found ${kindOf(value)}, expected one case, an object`);
  if (!isShallow(value)) return fail(`is nested more than ${maxDepth} deep, expected a case`);
  const word = (field: string): string => {
    const found = value[field];
    if (typeof found === "string" && found !== "") return found;
    return fail(`${field} is ${found === undefined ? "missing" : shown(found)}, expected a text`);
  };
  // A family without settings may have null.
  const config = value["config"] === null ? {} : value["config"];
  if (!isRecord(config)) return fail(`config is ${missing(value["config"])}, expected an object`);
  const ops = value["ops"];
  if (!Array.isArray(ops)) return fail(`ops is ${missing(ops)}, expected a list of operations`);
  if (ops.length === 0) return fail("ops is empty, expected at least one operation");
  return {
    id: word("id"),
    family: word("family"),
    title: word("title"),
    config: withoutRemarks(config),
    ops: ops.map((op, i) => operation(op, (what) => fail(`op ${i + 1}${what}`))),
    unknown: Object.keys(value).filter((field) => !caseFields.includes(field)),
  };
}

function parseJson(text: string, fail: (what: string) => never): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return fail(`is not JSON (${error.message}), expected a case`);
  }
}

function operation(op: unknown, fail: (what: string) => never): Operation {
  if (!isRecord(op)) return fail(` is ${kindOf(op)}, expected an object`);
  const { op: name, expect = {}, ...inputs } = op;
  if (typeof name !== "string" || name === "") return fail(`: "op" is ${missing(name)}, expected its name`);
  if (!isRecord(expect)) return fail(` (${name}): expect is ${kindOf(expect)}, expected an object`);
  return { name, inputs: withoutRemarks(inputs), expect: withoutRemarks(expect) };
}

const withoutRemarks = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([field]) => !isRemark(field)));

const missing = (value: unknown) => (value === undefined ? "missing" : kindOf(value));

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  return isRecord(value) ? "an object" : shown(value);
}

/** Level by level, without recursion. */
function isShallow(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return false;
    level = level.flatMap((each) => (typeof each === "object" && each !== null ? Object.values(each) : []));
  }
  return true;
}
