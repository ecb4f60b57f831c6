import { basename } from "node:path";
import { isNode, LineCounter, parseDocument } from "yaml";
import { z } from "zod";
import { InputError } from "../../core/errors.ts";
import { readTextFile } from "../../traces/read-text.ts";
import { type Axis, AxisError, gridOf, latinHypercube, type Scalar, valuesOf } from "./axes.ts";

const scalar = z.union([z.string(), z.number(), z.boolean()], { error: "expected a text, a number, true or false" });
const fields = z.strictObject({
  from: z.union([z.number(), z.string()], { error: "expected a number, or one with a unit such as 10%" }),
  to: z.union([z.number(), z.string()], { error: "expected a number, or one with a unit such as 10%" }),
  step: z.number().positive().optional(),
  count: z.int().min(1).max(1_000_000).optional(),
  scale: z.enum(["linear", "log"]).optional(),
});
const names = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)], { error: "expected a file, or a list" });

/** The fields of a sweep file. */
const sweepFields = z.strictObject({
  name: z
    .string()
    .regex(/^\w[\w.-]{0,99}$/, "expected letters, digits, dots, dashes and underscores")
    .optional(),
  about: z.string().optional(),
  trace: names.optional(),
  target: z.string().optional(),
  options: z
    .record(
      z.string(),
      z.union([scalar, z.array(scalar), z.record(z.string(), scalar)], {
        error: "expected a text, a number, true or false; for NAME=VALUE also a list, or NAME: VALUE",
      }),
    )
    .default({}),
  vary: z.record(z.string(), z.unknown()).default({}),
  sample: z
    .strictObject({
      "latin-hypercube": z.int().min(1).max(1_000_000),
      seed: z
        .int()
        .min(0)
        .max(2 ** 31)
        .default(1),
    })
    .optional(),
});

/** One configuration as it is written: options of the command line by name, `rule.free-order` for `--rule free-order=`. */
export interface WrittenConfiguration {
  readonly trace: readonly string[];
  readonly options: Readonly<Record<string, Scalar>>;
  /** Values of the options that vary. */
  readonly varied: Readonly<Record<string, Scalar>>;
}

/** A sweep file. */
export interface SweepFile {
  readonly name: string;
  readonly configurations: readonly WrittenConfiguration[];
  /** Every distinct option and value, with its line. */
  readonly values: readonly { readonly option: string; readonly value: Scalar; readonly place: string }[];
  /** File and line of an option. */
  placeOf(option: string): string;
}

/** Reads a sweep file, YAML or JSON. @throws InputError with file and line, what was found and what was expected */
export async function readSweepFile(file: string): Promise<SweepFile> {
  return parseSweep(await readTextFile(file), file);
}

/** The option of `--trace`, which a sweep has instead of an argument. */
const traceOption = "trace";

/** @throws InputError as `readSweepFile` */
export function parseSweep(text: string, file: string): SweepFile {
  const lines = new LineCounter();
  const yaml = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const fail = (offset: number, what: string): never => {
    throw new InputError(`${file}:${lines.linePos(offset).line}: ${what}`);
  };
  for (const { pos, message } of yaml.errors) fail(pos[0], `is not YAML or JSON: ${message}`);
  const offsetOf = (path: readonly PropertyKey[]): number => {
    for (let length = path.length; length > 0; length--) {
      const node = yaml.getIn(path.slice(0, length), true);
      if (isNode(node) && node.range) return node.range[0];
    }
    return 0;
  };
  const failAt = (path: readonly PropertyKey[], what: string): never => fail(offsetOf(path), what);
  const parse = <T>(schema: z.ZodType<T>, value: unknown, at: readonly PropertyKey[]): T => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const path = [...at, ...issue.path, ...(issue.code === "unrecognized_keys" ? [issue.keys[0]] : [])];
    return failAt(path, `${path.map(String).join(".") || "the file"}: ${messageOf(issue)}`);
  };

  let content: unknown;
  try {
    content = yaml.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return fail(0, `is not YAML or JSON: ${(error as Error).message}`);
  }
  if (content === null || content === undefined) return fail(0, "is empty, expected a sweep: trace, options, vary");
  const document = parse(sweepFields, content, []);
  const fixed = flattened(document.options, (name, what) => failAt(["options", name], what));
  if (document.target !== undefined) {
    if (fixed["target"] !== undefined) failAt(["options", "target"], "target is given twice, also outside of options");
    fixed["target"] = document.target;
  }
  const axes: Record<string, Axis> = {};
  for (const [name, written] of Object.entries(document.vary)) {
    if (fixed[name] !== undefined) failAt(["vary", name], `${name} is also in options, expected it once`);
    axes[name] = axisOf(written, name, (value, schema) => parse(schema, value, ["vary", name]));
    if (Array.isArray(written)) {
      const twice = written.findIndex((value, i) => written.indexOf(value) !== i);
      if (twice >= 0) failAt(["vary", name, twice], `${name} has ${JSON.stringify(written[twice])} twice`);
    }
  }
  if (axes[traceOption] !== undefined && document.trace !== undefined)
    failAt(["vary", traceOption], "trace is also outside of vary, expected it once");

  const rows = inVary(() => {
    const { sample } = document;
    return sample ? latinHypercube(axes, sample["latin-hypercube"], sample.seed) : gridOf(axes);
  });
  function inVary<Result>(act: () => Result): Result {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof AxisError)) throw error;
      const culprit = Object.keys(axes).find((name) => !isExpandable(axes[name], document.sample !== undefined));
      return failAt(
        culprit === undefined ? ["vary"] : ["vary", culprit],
        `${culprit === undefined ? "vary" : `vary.${culprit}`} ${error.message}`,
      );
    }
  }

  const placeAt = (path: readonly PropertyKey[]) => `${file}:${lines.linePos(offsetOf(path)).line}`;
  const placeOf = (option: string) =>
    placeAt(option in axes ? ["vary", option] : option in document.options ? ["options", option] : [option]);
  const configurations = rows.map((varied): WrittenConfiguration => {
    const { [traceOption]: other, ...options } = varied;
    const trace = other === undefined ? (document.trace ?? []) : String(other);
    return { trace: typeof trace === "string" ? [trace] : trace, options: { ...fixed, ...options }, varied };
  });
  const values = [
    ...Object.entries(fixed).map(([option, value]) => ({ option, value, place: placeOf(option.split(".")[0]) })),
    ...Object.entries(axes).flatMap(([option, axis]) => {
      const used = [...new Set(rows.map((row) => row[option]))];
      const places = Array.isArray(axis) ? axis : [];
      return used.map((value) => {
        const at = places.indexOf(value);
        return { option, value, place: placeAt(["vary", option, ...(at < 0 ? [] : [at])]) };
      });
    }),
  ].filter(({ option }) => option !== traceOption);
  return { name: document.name ?? nameIn(file), configurations, values, placeOf };
}

/** `rule: {a: b}` and `rule: [a=b]` as `rule.a: b`. */
function flattened(
  options: z.infer<typeof sweepFields>["options"],
  fail: (name: string, what: string) => never,
): Record<string, Scalar> {
  const flat: Record<string, Scalar> = {};
  for (const [name, value] of Object.entries(options)) {
    if (typeof value !== "object") flat[name] = value;
    else if (!Array.isArray(value)) for (const [part, each] of Object.entries(value)) flat[`${name}.${part}`] = each;
    else
      for (const each of value) {
        const [, part, rest] = /^([^=]+)=(.*)$/.exec(String(each)) ?? [];
        const option = part === undefined ? name : `${name}.${part}`;
        if (flat[option] !== undefined) return fail(name, `${option} is given twice, expected once`);
        flat[option] = part === undefined ? each : rest;
      }
  }
  return flat;
}

function axisOf(written: unknown, name: string, parse: <T>(value: unknown, schema: z.ZodType<T>) => T): Axis {
  if (Array.isArray(written)) return parse(written, z.array(scalar).min(1, "is empty, expected values"));
  if (typeof written === "object" && written !== null) return parse(written, fields);
  const expected = name === traceOption ? "a list of files" : "a list, or a range such as {from: 1, to: 8, step: 1}";
  return parse(
    written,
    z.never({ error: `is ${JSON.stringify(written)}, expected ${expected}; a fixed value belongs to options` }),
  );
}

function isExpandable(axis: Axis, isSampled: boolean): boolean {
  try {
    if (isSampled) latinHypercube({ axis }, 1, 0);
    else valuesOf(axis);
    return true;
  } catch {
    return false;
  }
}

function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code === "unrecognized_keys") return "unknown field";
  return issue.message.charAt(0).toLowerCase() + issue.message.slice(1);
}

const nameIn = (file: string) =>
  basename(file)
    .replace(/\.(ya?ml|json)$/i, "")
    .replace(/[^\w.-]+/g, "_")
    .replace(/^[.-]+/, "") || "sweep";
