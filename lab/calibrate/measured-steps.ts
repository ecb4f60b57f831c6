import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { InputError } from "../../core/errors.ts";
import { extensionLoads, type StepLoad, type StepLoadExtension } from "../../core/serving/step-load.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import { restoreCalls } from "../../engine/backends.ts";
import { amountsOf, type Measurement } from "../../sim/cost/fit.ts";
import { whyUnreadable } from "../../traces/bytes.ts";

/** The kind of a measurement, as in the report, which has residuals by kind: prefill, decode, mixed steps, or an interval. */
export type MeasuredKind = "prompts" | "answers" | "both" | "first token" | "later tokens";

/** Labels of the kinds in texts and plots. */
export const kindLabels: Readonly<Record<MeasuredKind | "all", string>> = {
  prompts: "prefill",
  answers: "decode",
  both: "mixed",
  "first token": "first token",
  "later tokens": "later tokens",
  all: "all",
};

export interface Measured extends Measurement {
  readonly kind: MeasuredKind;
}

const loadColumns = [
  ...(["sequences", "prefillTokens", "decodeTokens", "contextTokens", "prefillContextTokens"] as const),
  ...(["prefillSequences", "prefillPairs", "logits", "copiedBlocks", "swappedTokens", "durationNs"] as const),
] as const satisfies (keyof StepTable)[];
const columns = [...loadColumns, ...extensionLoads] as const satisfies (keyof StepTable)[];

type StepRow = Readonly<
  Record<(typeof loadColumns)[number], number> & Partial<Record<(typeof extensionLoads)[number], number>>
>;

function measured({ durationNs, contextTokens, ...row }: StepRow): Measured {
  const decodeContextTokens = contextTokens - row.prefillContextTokens;
  const load: Partial<StepLoad> = { ...row, decodeContextTokens };
  const kind = row.prefillTokens === 0 ? "answers" : row.decodeTokens === 0 ? "prompts" : "both";
  return { amounts: amountsOf(load), ns: durationNs, kind };
}

/** The steps of a run that started at `fromNs` or later. */
export function stepsFrom(table: StepTable, fromNs: number): Measured[] {
  return table.startNs.flatMap((startNs, i) => {
    if (startNs < fromNs) return [];
    return [measured(Object.fromEntries(columns.map((name) => [name, table[name][i]])) as unknown as StepRow)];
  });
}

/** Measured steps, and how the backend divides steps into calls if it reports that. */
export interface MeasuredSteps {
  readonly steps: readonly Measured[];
  readonly calls?: StepLoadExtension | undefined;
}

/**
 * The steps of a saved run.
 *
 * @throws InputError if it has no steps, or an older version saved it without their loads
 */
export async function savedSteps(folder: string): Promise<MeasuredSteps> {
  const path = join(folder, "steps.parquet");
  const bytes = await readFile(path).catch((error) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}; expected the folder of a run`);
  });
  const rows = await parquetReadObjects({ file: new Uint8Array(bytes).buffer as ArrayBuffer }).catch((error: Error) => {
    throw new InputError(`${path}: is not Parquet (${error.message})`);
  });
  const calls = await savedCalls(folder);
  const steps = rows.map((row, i) => {
    const values = (calls ? columns : loadColumns).map((name) => {
      const value = Number(row[name]);
      if (row[name] !== undefined && Number.isSafeInteger(value) && value >= 0) return [name, value] as const;
      if (row[name] !== undefined)
        throw new InputError(`${path}: ${name} of step ${i} is ${row[name]}, expected a number from 0`);
      throw new InputError(
        `${path}: has no column ${name}; expected a timed run that this version or a later one saved`,
      );
    });
    return measured(Object.fromEntries(values) as unknown as StepRow);
  });
  return { steps, calls };
}

/** The division into calls, which only the report of a real engine has. */
async function savedCalls(folder: string): Promise<StepLoadExtension | undefined> {
  const path = join(folder, "run.json");
  const text = await readFile(path, "utf8").catch((error) => {
    throw new InputError(`${path}: ${whyUnreadable(error)}; expected the folder of a run`);
  });
  const rules = engineCalls(text, path);
  return rules === undefined ? undefined : restoreCalls(rules, `${path}: engine`);
}

function engineCalls(text: string, path: string): unknown {
  try {
    return (JSON.parse(text) as { engine?: { calls?: unknown } } | null)?.engine?.calls;
  } catch (error) {
    throw new InputError(`${path}: is not JSON (${(error as Error).message})`);
  }
}
