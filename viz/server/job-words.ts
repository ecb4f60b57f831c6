import { z } from "zod";
import type { Choices, JobRequest } from "../api.ts";
import { Refusal } from "./refusal.ts";

const name = z.string().min(1).max(1000);
const names = z.array(name).max(50);

const jobRequest = z.strictObject({
  trace: name,
  target: z.enum(["cache", "sim", "cpu"]),
  preset: name.optional(),
  evictions: names.optional(),
  index: name.optional(),
  scheduler: name.optional(),
  blocks: z
    .array(z.string().regex(/^(\d{1,10}|\d{1,3}(\.\d{1,6})?%|unlimited)$/))
    .max(50)
    .optional(),
  limit: z.int().min(1).max(1e9).optional(),
});

/** What a run can be started with, and where the files among that are. */
export interface Sources {
  readonly choices: Choices;
  /** Full paths of traces and policies, by the names that `choices` has. */
  readonly files: ReadonlyMap<string, string>;
}

/** A command line of the program: what it is told, and what is shown. */
export interface JobWords {
  readonly words: readonly string[];
  readonly command: string;
}

/** @throws Refusal if the request is none, or has a name that is no choice. */
export function parseJob(body: unknown, { choices }: Sources): JobRequest {
  const parsed = jobRequest.safeParse(body);
  if (!parsed.success) {
    const [{ path, message }] = parsed.error.issues;
    throw new Refusal(400, `${path.join(".") || "the request"}: ${message}`);
  }
  const { trace, preset, evictions = [], index, scheduler } = parsed.data;
  checkChosen("trace", [trace], choices.traces);
  checkChosen("preset", [preset], choices.presets);
  checkChosen("eviction policy", evictions, choices.evictions);
  checkChosen("index", [index], choices.indexes);
  checkChosen("scheduler", [scheduler], choices.schedulers);
  return parsed.data as JobRequest;
}

function checkChosen(what: string, given: readonly (string | undefined)[], choices: readonly string[]): void {
  for (const each of given)
    if (each !== undefined && !choices.includes(each))
      throw new Refusal(
        400,
        `there is no ${what} ${JSON.stringify(each.slice(0, 100))}; /api/choices lists what there is`,
      );
}

/** Several policies or sizes are a comparison. */
export function wordsOf(request: JobRequest, { files }: Sources): JobWords {
  const { trace, target, preset, evictions = [], index, scheduler, blocks = [], limit } = request;
  const isComparison = evictions.length > 1 || blocks.length > 1;
  const words = (path: (name: string) => string): string[] => {
    const all = [isComparison ? "compare" : "replay", path(trace), "--target", target];
    const add = (option: string, values: readonly (string | number | undefined)[]) => {
      const given = values.filter((value) => value !== undefined);
      if (given.length > 0) all.push(`--${option}`, given.join(","));
    };
    add("policy", [preset]);
    add("index", [index]);
    add("eviction", evictions.map(path));
    add("scheduler", [scheduler]);
    add("blocks", blocks);
    add("limit", [limit]);
    return all;
  };
  const out = isComparison ? ["--out", "runs"] : [];
  return {
    words: [...words((each) => files.get(each) ?? each), ...out],
    command: ["kvlab", ...words((each) => each), ...out].map(quoted).join(" "),
  };
}

const quoted = (word: string) => (/^[\w./:=%+@,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
