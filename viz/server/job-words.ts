import { z } from "zod";
import type { Choices, JobRequest } from "../api.ts";
import { Refusal } from "./refusal.ts";

const mostValues = 50;

/** Every invalid value has the same message: the expected range. */
const wholeNumber = (least: number, most: number) => {
  const error = `expected a whole number from ${least} to ${most}`;
  return z.int({ error }).min(least, { error }).max(most, { error });
};
const positive = z.number({ error: "expected a number above 0" }).check((context) => {
  const { value: input } = context;
  if (!(input > 0 && input <= 1e9))
    context.issues.push({ code: "custom", message: "expected a number above 0", input });
});
const name = z.string().min(1).max(1000);
const isSize = (text: string) =>
  text === "unlimited" || (/^(\d{1,10}|\d{1,3}(\.\d{1,6})?%)$/.test(text) && Number.parseFloat(text) > 0);
const size = z.string().refine(isSize, { error: "expected a number of blocks, a share such as 10%, or unlimited" });
const listOf = <Value extends z.ZodType>(value: Value) =>
  z
    .array(value)
    .max(mostValues, { error: `expected at most ${mostValues} values` })
    .refine((all) => new Set(all).size === all.length, { error: "expected distinct values" })
    .optional();

const everyTarget = {
  trace: name,
  presets: listOf(name),
  indexes: listOf(name),
  evictions: listOf(name),
  allocators: listOf(name),
  schedulers: listOf(name),
  blocks: listOf(size),
  limit: wholeNumber(1, 1e9).optional(),
  warmup: wholeNumber(0, 1e9).optional(),
  seed: wholeNumber(0, 2 ** 32 - 1).optional(),
  events: z.boolean().optional(),
};
const inTime = { ...everyTarget, model: name.optional(), rates: listOf(positive) };

/** The fields of each target; other fields are refused. */
const targets = {
  cache: z.strictObject({ target: name, ...everyTarget }),
  sim: z.strictObject({
    target: name,
    ...inTime,
    gpu: name.optional(),
    replicas: listOf(wholeNumber(1, 4096)),
    routers: listOf(name),
  }),
  engine: z.strictObject({ target: name, ...inTime }),
};
const schemaOf = (target: string) => targets[target === "cache" || target === "sim" ? target : "engine"];

/** The values with which a run can be started, and the paths of those that are files. */
export interface Sources {
  readonly choices: Choices;
  /** Full paths of traces, policies and models, by the names that `choices` has. */
  readonly files: ReadonlyMap<string, string>;
}

/** A command line of the program: its arguments, and the text that the page shows. */
export interface JobCommandLine {
  readonly words: readonly string[];
  readonly command: string;
}

/** @throws Refusal that begins with the field, if the body is not a job request or a name is not among the choices */
export function parseJob(body: unknown, { choices }: Sources): JobRequest {
  const { target } = checked(z.looseObject({ target: z.enum(["cache", "sim", ...choices.engineTargets]) }), body);
  const request = checked(schemaOf(target) as z.ZodType<JobRequest>, body);
  const { trace, presets, indexes, evictions, allocators, schedulers, model, gpu, routers, replicas = [] } = request;
  checkChosen("trace", [trace], choices.traces);
  checkChosen("presets", presets, choices.presets);
  checkChosen("indexes", indexes, choices.indexes);
  checkChosen("evictions", evictions, choices.evictions);
  checkChosen("allocators", allocators, choices.allocators);
  checkChosen("schedulers", schedulers, choices.schedulers);
  checkChosen("model", model === undefined ? [] : [model], target === "sim" ? choices.models : choices.engineModels);
  checkChosen("gpu", gpu === undefined ? [] : [gpu], choices.hardware);
  checkChosen("routers", routers, choices.routers);
  if (routers && routers.length > 0 && !replicas.some((count) => count > 1))
    throw new Refusal(400, "routers: a router needs more than one replica, expected `replicas` above 1");
  if (target === "cache" && request.blocks?.includes("unlimited") && isComparison(request))
    throw new Refusal(400, "blocks: a comparison always includes the unlimited cache, expected limited sizes only");
  return request;
}

const isComparison = (request: JobRequest) =>
  Object.values(request).some((value) => Array.isArray(value) && value.length > 1);

function checked<Value>(schema: z.ZodType<Value>, body: unknown): Value {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue.code === "unrecognized_keys")
    throw new Refusal(400, `${issue.keys[0].slice(0, 100)}: is not a field of this target`);
  const field = issue.path.filter((part) => typeof part === "string").join(".");
  throw new Refusal(400, `${field || "the request"}: ${foundAt(body, issue.path)}${issue.message}`);
}

/** The invalid value, if it is a string or a number. */
function foundAt(body: unknown, path: readonly PropertyKey[]): string {
  let found = body;
  for (const part of path) found = (found as Record<PropertyKey, unknown> | undefined)?.[part];
  return typeof found === "string" || typeof found === "number" ? `is ${shown(found)}, ` : "";
}

function checkChosen(field: string, given: readonly string[] = [], choices: readonly string[]): void {
  for (const each of given)
    if (!choices.includes(each))
      throw new Refusal(400, `${field}: is ${shown(each)}, expected a value that /api/choices lists`);
}

const shown = (value: string | number) => JSON.stringify(typeof value === "string" ? value.slice(0, 100) : value);

/** The command-line option of each field; several values make a comparison. */
const options = {
  presets: "preset",
  indexes: "index",
  evictions: "eviction",
  allocators: "allocator",
  schedulers: "scheduler",
  model: "model",
  gpu: "gpu",
  replicas: "replicas",
  routers: "router",
  rates: "rate",
  blocks: "blocks",
  limit: "limit",
  warmup: "warmup",
  seed: "seed",
} as const satisfies Partial<Record<keyof JobRequest, string>>;

export function commandLineOf(request: JobRequest, { files }: Sources): JobCommandLine {
  const given = Object.entries(options).flatMap(([field, option]) => {
    const value = request[field as keyof typeof options];
    const values = (Array.isArray(value) ? value : [value]).filter((each) => each !== undefined).map(String);
    return values.length > 0 ? [{ option, values }] : [];
  });
  const compares = isComparison(request);
  const words = (path: (name: string) => string): string[] => [
    ...[compares ? "compare" : "replay", path(request.trace), "--target", request.target],
    ...given.flatMap(({ option, values }) => [`--${option}`, values.map(path).join(",")]),
    ...(request.events ? ["--events"] : []),
    ...(compares ? ["--out", "runs"] : []),
  ];
  return {
    words: words((each) => files.get(each) ?? each),
    command: ["kvlab", ...words((each) => each)].map(quoted).join(" "),
  };
}

const quoted = (word: string) => (/^[\w./:=%+@,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
