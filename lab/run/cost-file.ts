import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { InputError } from "../../core/errors.ts";
import { restoreCalls } from "../../engine/backends.ts";
import { costFromText } from "../../sim/cost/cost-file.ts";
import { Recorded, type RecordedSteps } from "../../sim/cost/recorded.ts";
import type { SimulationConfig } from "../../sim/simulation.ts";
import { whyUnreadable } from "../../traces/bytes.ts";
import { readTextFile } from "../../traces/read-text.ts";
import type { CostPlugin } from "../user-plugins/kinds.ts";
import { isProgram } from "../user-plugins/plugin-file.ts";
import { guardedValue, loadUserPlugin } from "../user-plugins/user-plugin.ts";

/**
 * Step times from a cost model, as a value or in TypeScript or JavaScript, from a file of coefficients or recorded steps, or from
 * the folder of a simulated or measured run.
 *
 * @throws InputError if the path cannot be read or is none of these
 */
export async function costFrom(path: string | CostPlugin): Promise<SimulationConfig["cost"]> {
  if (typeof path !== "string") {
    const cost = guardedValue("cost", path);
    return () => cost;
  }
  if (isProgram(path)) {
    const cost = await loadUserPlugin("cost", path);
    return () => cost;
  }
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => unreadable(path, error));
  if (!found.isDirectory()) return costFromText(await readTextFile(path), path, restoreCalls);
  const replicas = await stepsOf(join(path, "steps.parquet"));
  return (replica) => new Recorded(replicas[replica] ?? noSteps, `${path}: replica ${replica}`);
}

/** The steps of a replica that executed none. */
const noSteps: RecordedSteps = { durationNs: [], prefillTokens: [], decodeTokens: [] };

type Mutable = { -readonly [Name in keyof RecordedSteps]: number[] };

async function stepsOf(path: string): Promise<RecordedSteps[]> {
  const bytes = await readFile(path).catch((error) => unreadable(path, error));
  const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer as ArrayBuffer }).catch((error: Error) => {
    throw new InputError(`${path}: is not Parquet (${error.message})`);
  });
  const replicas: Mutable[] = [];
  for (const row of rows) {
    const [replica, durationNs, prefillTokens, decodeTokens] = [
      "replica",
      "durationNs",
      "prefillTokens",
      "decodeTokens",
    ].map((name) => Number(row[name]));
    if (![replica, durationNs, prefillTokens, decodeTokens].every(Number.isSafeInteger))
      throw new InputError(`${path}: has no durations; expected the steps of a simulation or an engine`);
    replicas[replica] ??= { durationNs: [], prefillTokens: [], decodeTokens: [] };
    replicas[replica].durationNs.push(durationNs);
    replicas[replica].prefillTokens.push(prefillTokens);
    replicas[replica].decodeTokens.push(decodeTokens);
  }
  return replicas;
}

function unreadable(path: string, error: unknown): never {
  throw new InputError(`${path}: ${whyUnreadable(error)}`);
}
