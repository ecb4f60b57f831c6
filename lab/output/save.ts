import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { assert } from "../../core/errors.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import { replaceFile } from "../../traces/replace-file.ts";
import type { Input } from "../input.ts";
import type { Run } from "../run/run.ts";
import { writeResidency, writeSeries } from "./parquet.ts";
import type { RunReport } from "./report.ts";
import { type RunDirectory, writeText } from "./run-directory.ts";
import { RunTables } from "./run-tables.ts";

/** The default folder of saved runs. */
export const runsFolder = "runs";

/** The part of a report that identifies a run before it starts. */
export type RunSetup = Pick<RunReport, "trace" | "policy" | "target" | "seed" | "warmup">;
type Identified = RunSetup &
  Partial<Pick<RunReport, "operations" | "simulation" | "engine" | "interrupted">> & {
    readonly slo?: Slo | null | undefined;
  };

/** Most characters of a trace's name in a run's id, which is a file name. */
const longestName = 100;

/** The id of a run: the main options, and a hash of all options. Equal configurations over one trace have equal ids. */
export function runId(input: Pick<Input, "name">, report: Identified): string {
  const { trace, policy, target, seed, warmup, operations, simulation, engine, slo, interrupted } = report;
  const limits = slo && {
    ...{ ttftMs: slo.ttftMs, tpotMs: slo.tpotMs, e2eMs: slo.e2eMs },
    ...(slo.percentiles && { percentiles: slo.percentiles }),
  };
  const limited = { limits: limits ?? undefined };
  const configuration = { trace, policy, target, seed, warmup, operations, simulation, engine, ...limited };
  const hash = createHash("sha256").update(JSON.stringify(configuration)).digest("hex");
  const { preset, index, eviction, blocks } = policy;
  const at = simulation ? [target, simulation.gpu] : engine ? [target, basename(engine.model)] : [];
  const parts = [
    input.name.slice(0, longestName),
    ...at,
    preset ?? index,
    eviction,
    blocks ?? "unlimited",
    hash.slice(0, 8),
  ];
  // An interrupted run does not replace a complete one.
  if (interrupted) parts.push("interrupted");
  return parts
    .join("-")
    .replace(/[^A-Za-z0-9.+_-]+/g, "_")
    .replace(/^\.+/, "");
}

/** Writes the files of a run. `tables`: rows that were added while it ran; by default those of its results. */
export async function saveRun(
  directory: RunDirectory,
  run: Run,
  report: RunReport,
  command: string,
  signal?: AbortSignal,
  tables: RunTables = tablesOf(run),
): Promise<void> {
  const { result, simulation } = run;
  const { logs } = result;
  await directory.fill(async (folder) => {
    const file = (name: string) => ({ path: join(folder, name), signal });
    await tables.finish(folder, logs, signal);
    if (simulation) await writeSeries(file("series.parquet"), simulation.series);
    if (report.residency) await writeResidency(file("residency.parquet"), report.residency);
    await writeText(folder, "run.json", `${JSON.stringify({ ...report, command }, undefined, 2)}\n`);
  });
}

/** Adds fields to the saved report of a run, before its command; does nothing if the run is no longer there. */
export async function addToSavedRun(folder: string, fields: Pick<RunReport, "uncertainty">): Promise<void> {
  const file = join(folder, "run.json");
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
  if (text === undefined) return;
  const { command, ...report } = JSON.parse(text) as Record<string, unknown>;
  const added = `${JSON.stringify({ ...report, ...fields, command }, undefined, 2)}\n`;
  await replaceFile(file, (temporary) => writeFile(temporary, added));
}

function tablesOf({ config, result: { requests }, simulation }: Run): RunTables {
  assert(requests !== undefined, "the results of a run were not kept");
  const tables = new RunTables(config.warmup ?? 0);
  tables.addRequests(requests, simulation?.requests);
  if (simulation?.steps) tables.addSteps(simulation.steps);
  return tables;
}
