import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { KvEventReader } from "../../core/log/kv-events.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { Input } from "../input.ts";
import type { Run } from "../run/run.ts";
import { writeEvents, writeRequests, writeSeries, writeSimulatedSteps, writeSteps } from "./parquet.ts";
import type { RunReport } from "./report.ts";
import { type RunDirectory, writeText } from "./run-directory.ts";

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
  const limits = slo && { ttftMs: slo.ttftMs, tpotMs: slo.tpotMs, e2eMs: slo.e2eMs };
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

/** Writes the files of a run. */
export async function saveRun(
  directory: RunDirectory,
  run: Run,
  report: RunReport,
  command: string,
  signal?: AbortSignal,
): Promise<void> {
  const { result, simulation } = run;
  const { requests, logs } = result;
  await directory.fill(async (folder) => {
    const file = (name: string) => ({ path: join(folder, name), signal });
    await writeRequests(file("requests.parquet"), requests, report.warmup, simulation?.requests);
    if (simulation?.steps) await writeSimulatedSteps(file("steps.parquet"), simulation.steps);
    else await writeSteps(file("steps.parquet"), requests);
    if (simulation) await writeSeries(file("series.parquet"), simulation.series);
    if (logs.length > 0) {
      await writeEvents(file("events.parquet"), logs);
      const events = logs.flatMap((log, replica) =>
        new KvEventReader(log).take().map((event) => (logs.length === 1 ? event : { replica, ...event })),
      );
      await writeText(folder, "kv-events.jsonl", events.map((event) => `${JSON.stringify(event)}\n`).join(""));
    }
    await writeText(folder, "run.json", `${JSON.stringify({ ...report, command }, undefined, 2)}\n`);
  });
}
