import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { KvEventReader } from "../../core/log/kv-events.ts";
import type { Slo } from "../../core/serving/metrics.ts";
import type { Input } from "../input.ts";
import type { Run } from "../run/run.ts";
import { writeEvents, writeRequests, writeSeries, writeSimulatedSteps, writeSteps } from "./parquet.ts";
import type { RunReport } from "./report.ts";
import { type RunDirectory, writeText } from "./run-directory.ts";

/** The folder that runs are saved in unless `--out` says otherwise. */
export const runsFolder = "runs";

/** The identity of a run, known before it. */
export type RunSetup = Pick<RunReport, "trace" | "policy" | "target" | "seed" | "warmup">;
type Identified = RunSetup &
  Partial<Pick<RunReport, "operations" | "simulation" | "engine" | "interrupted">> & {
    readonly slo?: Slo | null | undefined;
  };

/** Characters of a trace's name in a run's id, which is a file name. */
const longestName = 100;

/** The same configuration over the same trace has the same id: what was run, and a hash of all the rest. */
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
  // It does not take the place of one that is whole.
  if (interrupted) parts.push("interrupted");
  return parts
    .join("-")
    .replace(/[^A-Za-z0-9.+_-]+/g, "_")
    .replace(/^\.+/, "");
}

/** Fills a run's directory. */
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
