import { z } from "zod";
import { InputError } from "../../core/errors.ts";
import { optionNames } from "../run/simulation-options.ts";
import type { ResolvedOptions } from "./options.ts";

const inputFile = z.strictObject({ path: z.string().min(1), sha256: z.string().regex(/^[0-9a-f]{64}$/) });
const key = z.string().regex(/^[0-9a-f]{32}$/);

/** The options that a shard may have: none of them writes a file. */
const optionFields = [
  ...(["preset", "index", "eviction", "allocator", "scheduler", "rules", "blocks", "blockSize", "warmup"] as const),
  ...(["seed", "audit", "operations", "target", "format", "unit", "timeUnit", "tokenizer", "sessionSpread"] as const),
  ...(["limit", ...Object.keys(optionNames)] as (keyof ResolvedOptions)[]),
] as const satisfies readonly (keyof ResolvedOptions)[];

const options = z
  .looseObject({ target: z.string(), seed: z.int() })
  .refine((given) => Object.keys(given).every((name) => (optionFields as readonly string[]).includes(name)), {
    error: "has an option that a sweep does not have",
  });

const shardFields = z.strictObject({
  schema: z.literal("shard/1"),
  kvlab: z.string(),
  /** Folder that relative paths are resolved in. */
  folder: z.string(),
  trace: z.array(inputFile),
  inputs: z.array(inputFile),
  configurations: z.array(z.strictObject({ key, options })).min(1),
});

/** Configurations that one worker runs over one trace: the content of a file that every worker reads. */
export type Shard = Omit<z.infer<typeof shardFields>, "configurations"> & {
  readonly configurations: readonly { readonly key: string; readonly options: ResolvedOptions }[];
};

const resultFields = z.strictObject({
  schema: z.literal("shard-result/1"),
  host: z.string(),
  results: z.array(
    z.union([
      z.strictObject({ key, wallMs: z.number(), report: z.string().optional() }),
      z.strictObject({ key, error: z.string() }),
    ]),
  ),
});

/**
 * The results of a shard: the content of a file that every worker writes. `report` is the text of a result's file; without it, the
 * file is in a folder beside the list (`reportsBeside`).
 */
export type ShardResult = z.infer<typeof resultFields>;

/** @throws InputError if the text is not a shard of this version */
export function parseShard(text: string, name: string): Shard {
  const shard = parse(shardFields, text, name, "a shard");
  return shard as Shard;
}

/** @throws InputError if the text is not the results of a shard */
export const parseResult = (text: string, name: string): ShardResult =>
  parse(resultFields, text, name, "results of a shard");

function parse<T>(schema: z.ZodType<T>, text: string, name: string, expected: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InputError(`${name}: is not JSON, expected ${expected}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [{ path, message }] = parsed.error.issues;
  throw new InputError(`${name}: ${path.join(".") || "the document"}: ${message}; expected ${expected}`);
}
