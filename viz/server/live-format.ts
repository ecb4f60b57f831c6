import { readdir, readFile, rm, rmdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";

/**
 * How a program tells what it does while it runs: files in a folder of its own, in a hidden folder among the runs.
 *
 *   RUNS/.live/ID/header.json   what runs, written once
 *                 now.json      how things stand, replaced several times a second
 *                 series.json   everything over time so far, replaced with it
 *                 kind.bin …    the event log so far, a file for each column (`eventColumns`), to which rows are added
 *
 * The folder goes when the program ends; where it was killed, it stays until the next one looks.
 */
export const liveFolder = ".live";
export const liveFiles = {
  header: "header.json",
  now: "now.json",
  series: "series.json",
} as const;

/** No more events are told, so that a disk is not filled: 58 MB. */
export const mostEventsTold = 2_000_000;

const count = z.number().nonnegative();
const text = z.string().max(10_000);

const header = z.object({
  schema: z.literal("live/1"),
  pid: z.int().positive(),
  host: text,
  command: text,
  /** The run that it will be saved as; null if it is not saved, or nobody can tell yet. */
  run: text.nullable(),
  trace: text,
  requests: count,
  target: z.enum(["cache", "sim", "cpu"]),
  preset: text.nullable(),
  index: text,
  eviction: text,
  allocator: text,
  scheduler: text,
  /** The rule of that name. */
  victims: text,
  blocks: count.nullable(),
  blockTokens: count,
});
export type LiveHeader = z.infer<typeof header>;

const now = z.object({
  state: z.enum(["running", "saving"]),
  requestsDone: count,
  /** Time of the run; null without a clock. */
  timeNs: count.nullable(),
  running: count,
  waiting: count,
  blocks: z.object({ free: count, private: count, held: count, idle: count }),
  lookupTokens: count,
  hitTokens: count,
  evictedBlocks: count,
  preemptions: count,
  hitRatio: z.record(z.string().max(100), z.number()),
  /** Without a clock there is none. */
  throughput: z.object({ requestsPerS: count, outputTokensPerS: count }).nullable(),
  /** How many events have happened, and how many of them are told; null if no log is kept. */
  events: count.nullable(),
  eventsTold: z.int().nonnegative().max(mostEventsTold),
});
export type LiveNow = z.infer<typeof now>;

/** Whole intervals only: means of levels, sums of counts, as in series.parquet. */
const series = z.object({
  startNs: count,
  intervalNs: z.number().positive(),
  count: z.int().nonnegative(),
  columns: z.record(z.string().max(100), z.array(z.number()).max(4096)),
});
export type LiveSeries = z.infer<typeof series>;

/** The columns of an event log, whose numbers are in files as in memory: `EventLog.columns`. */
export const eventColumns = ["kind", "timeNs", "request", "block", "key", "value"] as const;
export const columnFile = (name: string) => `${name}.bin`;

/** @throws Error if it is none, in a line. */
export const parseHeader = (json: string): LiveHeader => parsed(header, json, "header.json");
/** @throws Error if it is none, in a line. */
export const parseNow = (json: string): LiveNow => parsed(now, json, "now.json");
/** @throws Error if it is none, in a line. */
export function parseSeries(json: string): LiveSeries {
  const found = parsed(series, json, "series.json");
  const odd = Object.entries(found.columns).find(([, values]) => values.length !== found.count);
  if (odd) throw new Error(`series.json: ${odd[0]} has ${odd[1].length} intervals, expected ${found.count}`);
  return found;
}

function parsed<Document>(schema: z.ZodType<Document>, json: string, name: string): Document {
  let document: unknown;
  try {
    document = JSON.parse(json);
  } catch {
    throw new Error(`${name} is no JSON`);
  }
  const found = schema.safeParse(document);
  if (found.success) return found.data;
  const [{ path, message }] = found.error.issues;
  throw new Error(`${name}: ${path.join(".") || "document"}: ${message}`);
}

/** Whether the program that wrote this is there still; of another machine's nobody knows here, so it is. */
export function isThere({ pid, host }: Pick<LiveHeader, "pid" | "host">): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Takes away what programs have left that were killed. What is no live run is left alone. */
export async function clearLeft(runs: string): Promise<void> {
  const root = join(runs, liveFolder);
  for (const name of await readdir(root).catch(() => [])) {
    const folder = join(root, name);
    const left = await readFile(join(folder, liveFiles.header), "utf8")
      .then(parseHeader)
      .catch(() => undefined);
    if (left && !isThere(left)) await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
  await rmdir(root).catch(() => {});
}
