import { z } from "zod";
import type { RunRow } from "../api.ts";
import { Refusal } from "./refusal.ts";
import type { Runs } from "./runs.ts";

/** Runs with what a document about them states. */
export interface ReportedRuns {
  readonly rows: readonly RunRow[];
  /** All readable runs of the folder, for bounds that were not selected. */
  readonly all: readonly RunRow[];
  /** By run id: the command that reproduces the run, and the version of kvlab that saved it. */
  readonly commands: ReadonlyMap<string, string>;
  readonly versions: ReadonlyMap<string, string>;
}

const mostRuns = 1000;

/** The body of POST /api/report. */
const request = z.strictObject({
  runs: z
    .array(z.string().max(255))
    .min(1, { error: "expected at least one run" })
    .max(mostRuns, {
      error: `expected at most ${mostRuns} runs`,
    }),
  metric: z.string().max(100).default("token"),
});

/** @throws Refusal that begins with the field, if the body is not a request of a report */
export function parseReportRequest(body: unknown): z.infer<typeof request> {
  const parsed = request.safeParse(body);
  if (parsed.success) return parsed.data;
  const [{ path, message }] = parsed.error.issues;
  throw new Refusal(400, `${path.join(".") || "the request"}: ${message}`);
}

/** @throws Refusal if a run does not exist or cannot be read */
export async function reportedRuns(runs: Runs, ids: readonly string[]): Promise<ReportedRuns> {
  if (ids.length > mostRuns) throw new Refusal(413, `${ids.length} runs are selected, expected at most ${mostRuns}`);
  const all = (await runs.list()).filter((row): row is RunRow => !("problem" in row));
  const commands = new Map<string, string>();
  const versions = new Map<string, string>();
  const rows: RunRow[] = [];
  for (const id of new Set(ids)) {
    const { row, command, report } = await runs.detail(id);
    rows.push(row);
    commands.set(id, command);
    if (typeof report["kvlab"] === "string") versions.set(id, report["kvlab"].slice(0, 100));
  }
  return { rows, all: all.filter(({ id }) => !commands.has(id)), commands, versions };
}
