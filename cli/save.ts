import { createHash } from "node:crypto";
import { join } from "node:path";
import { KvEventReader } from "../core/kv-events.ts";
import type { Input } from "./input.ts";
import type { TraceReading } from "./options.ts";
import { writeEvents, writeRequests, writeSteps } from "./parquet.ts";
import type { RunReport } from "./report.ts";
import type { Run } from "./run.ts";
import { type RunDirectory, writeText } from "./run-directory.ts";

/** The folder that runs are saved in unless `--out` says otherwise. */
export const runsFolder = "runs";

/** The same configuration over the same trace has the same id: what was run, and a hash of all the rest. */
export function runId(input: Input, { trace, policy, seed, warmup, operations }: RunReport): string {
  const hash = createHash("sha256").update(JSON.stringify({ trace, policy, seed, warmup, operations })).digest("hex");
  const { preset, index, eviction, blocks } = policy;
  const parts = [input.name, preset ?? index, eviction, blocks ?? "unlimited", hash.slice(0, 8)];
  return parts
    .join("-")
    .replace(/[^A-Za-z0-9.+_-]+/g, "_")
    .replace(/^\.+/, "");
}

/** The command that gives this report again, in full: nothing is left to defaults that may change. */
export function commandOf(
  report: RunReport,
  reading: TraceReading & { readonly operations?: string },
  events: boolean,
  rules: readonly string[],
): string {
  const { operations } = reading;
  const { trace, policy, seed, warmup } = report;
  const words = ["kvlab", "replay", ...(trace.files.length === 0 ? ["example"] : trace.files)];
  const add = (option: string, value: string | number | undefined) => {
    if (value !== undefined) words.push(`--${option}`, String(value));
  };
  add("format", trace.files.length === 0 ? undefined : trace.format);
  add("unit", reading.unit);
  add("limit", reading.limit);
  add("policy", policy.preset ?? undefined);
  add("index", policy.indexFile ?? policy.index);
  add("eviction", policy.evictionFile ?? policy.eviction);
  add("allocator", policy.allocator);
  add("scheduler", policy.scheduler);
  for (const rule of rules) add("rule", rule);
  add("blocks", policy.blocks ?? "unlimited");
  add("block-size", policy.blockTokens);
  add("warmup", warmup === 0 ? undefined : warmup);
  add("seed", seed);
  add("operations", operations);
  if (events) words.push("--events");
  return words.map(quoted).join(" ");
}

const quoted = (word: string) => (/^[\w./:=%+@,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Fills a run's directory. */
export async function saveRun(directory: RunDirectory, run: Run, report: RunReport, command: string): Promise<void> {
  const { requests, log } = run.result;
  await directory.fill(async (folder) => {
    await writeRequests(join(folder, "requests.parquet"), requests, report.warmup);
    await writeSteps(join(folder, "steps.parquet"), requests);
    if (log) {
      await writeEvents(join(folder, "events.parquet"), log);
      const events = new KvEventReader(log).take().map((event) => `${JSON.stringify(event)}\n`);
      await writeText(folder, "kv-events.jsonl", events.join(""));
    }
    await writeText(folder, "run.json", `${JSON.stringify({ ...report, command }, undefined, 2)}\n`);
  });
}
