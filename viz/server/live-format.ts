import { readdir, readFile, rm, rmdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";

/**
 * Progress of a running program: files in a separate folder, inside a hidden folder beside the runs.
 *
 *   RUNS/.live/ID/header.json   the configuration, written once
 *                 now.json      the current metrics, replaced several times a second
 *                 series.json   the time series so far, replaced with it
 *                 requests.bin  the times of the requests that have ended, to which rows of `requestColumns` are appended
 *                 kind.bin …    the event log so far, a file for each column (`eventColumns`), to which rows are appended
 *
 * The program removes the folder when it ends. The folder of a killed program is removed by the next one.
 */
export const liveFolder = ".live";
export const liveFiles = {
  header: "header.json",
  now: "now.json",
  series: "series.json",
  requests: "requests.bin",
} as const;

/** At most so many events are written, which limits the files to 58 MB. */
export const mostLiveEvents = 2_000_000;

/** At most so many requests are written, which limits the file to 12 MB. */
export const mostLiveRequests = 200_000;

/** The columns of requests.bin, doubles; a row for each request. Times are ns, −1 for events that did not happen. */
export const requestColumns = [
  "request",
  "arrivalNs",
  "admittedNs",
  "firstTokenNs",
  "finishedNs",
  "outputTokens",
  "refused",
] as const;

const count = z.number().nonnegative();
const text = z.string().max(10_000);

/** `cache`, `sim`, or an engine target: any name, because runs may come from other versions, with other backends. */
export const targetName = z.string().regex(/^[a-z][a-z0-9-]{0,99}$/, { error: "expected the name of a target" });

const header = z.object({
  schema: z.literal("live/1"),
  pid: z.int().positive(),
  host: text,
  command: text,
  /** The id under which the run will be saved; null if it is not saved or the id is not known yet. */
  run: text.nullable(),
  trace: text,
  /** null: a server, whose requests are not known beforehand. */
  requests: count.nullable(),
  target: targetName,
  preset: text.nullable(),
  index: text,
  eviction: text,
  allocator: text,
  scheduler: text,
  /** The value of the rule `victims`. */
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
  /** null without a clock. */
  throughput: z.object({ requestsPerS: count, outputTokensPerS: count }).nullable(),
  /** Of the requests that have ended; only with an SLO. */
  slo: z.object({ attained: count, goodputRequestsPerS: count }).optional(),
  /** Number of refusals by reason. */
  refusals: z.record(z.string().max(100), count).optional(),
  /** Only with a clock. */
  replicas: z
    .array(z.object({ requests: count, hitRatio: count.nullable(), utilisation: count }))
    .max(10_000)
    .optional(),
  /** Number of events so far, null without an event log; and number of events in the files. */
  events: count.nullable(),
  eventsWritten: z.int().nonnegative().max(mostLiveEvents),
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

/** The columns of an event log; their files have the memory layout of `EventLog.columns`. */
export const eventColumns = ["kind", "timeNs", "request", "block", "key", "value"] as const;
export const columnFile = (name: string) => `${name}.bin`;

/** @throws Error with a message of one line */
export const parseHeader = (json: string): LiveHeader => parsed(header, json, "header.json");
/** @throws Error with a message of one line */
export const parseNow = (json: string): LiveNow => parsed(now, json, "now.json");
/** @throws Error with a message of one line */
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
    throw new Error(`${name} is not valid JSON`);
  }
  const found = schema.safeParse(document);
  if (found.success) return found.data;
  const [{ path, message }] = found.error.issues;
  throw new Error(`${name}: ${path.join(".") || "document"}: ${message}`);
}

/** Whether the program that wrote this is still running; assumed for a program on another machine. */
export function isAlive({ pid, host }: Pick<LiveHeader, "pid" | "host">): boolean {
  if (host !== hostname()) return true;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Removes the folders of killed programs. Folders that are not live runs are not touched. */
export async function removeStaleLiveRuns(runs: string): Promise<void> {
  const root = join(runs, liveFolder);
  for (const name of await readdir(root).catch(() => [])) {
    const folder = join(root, name);
    const left = await readFile(join(folder, liveFiles.header), "utf8")
      .then(parseHeader)
      .catch(() => undefined);
    if (left && !isAlive(left)) await rm(folder, { recursive: true, force: true }).catch(() => {});
  }
  await rmdir(root).catch(() => {});
}
