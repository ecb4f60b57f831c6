import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parquetReadObjects } from "hyparquet";
import { InputError } from "../../core/errors.ts";
import { extensionLoads, type StepLoad, type StepLoadExtension } from "../../core/serving/step-load.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import { restoreCalls } from "../../engine/backends.ts";
import { amountsOf, type Measurement } from "../../sim/cost/fit.ts";
import { whyUnreadable } from "../../traces/lines.ts";

/** The kind of a measurement; residuals are reported by kind. */
export type MeasuredKind = "prompts" | "answers" | "both" | "first token" | "later tokens";

export interface Measured extends Measurement {
  readonly kind: MeasuredKind;
}

const inTotals = [
  ...(["sequences", "prefillTokens", "decodeTokens", "contextTokens", "prefillContextTokens"] as const),
  ...(["prefillSequences", "prefillPairs", "logits", "copiedBlocks", "swappedTokens", "durationNs"] as const),
] as const satisfies (keyof StepTable)[];
const columns = [...inTotals, ...extensionLoads] as const satisfies (keyof StepTable)[];

type StepRow = Readonly<
  Record<(typeof inTotals)[number], number> & Partial<Record<(typeof extensionLoads)[number], number>>
>;

function measured({ durationNs, contextTokens, ...row }: StepRow): Measured {
  const decodeContextTokens = contextTokens - row.prefillContextTokens;
  const load: Partial<StepLoad> = { ...row, decodeContextTokens };
  const kind = row.prefillTokens === 0 ? "answers" : row.decodeTokens === 0 ? "prompts" : "both";
  return { amounts: amountsOf(load), ns: durationNs, kind };
}

/** The steps of a run that began at a time or later. */
export function stepsFrom(table: StepTable, fromNs: number): Measured[] {
  return table.startNs.flatMap((startNs, i) => {
    if (startNs < fromNs) return [];
    return [measured(Object.fromEntries(columns.map((name) => [name, table[name][i]])) as unknown as StepRow)];
  });
}

/** Steps that were measured; and how they were divided into calls, if their engine says. */
export interface MeasuredSteps {
  readonly steps: readonly Measured[];
  readonly calls?: StepLoadExtension | undefined;
}

/**
 * The steps of a run that was saved.
 *
 * @throws InputError if it has none, or is of a version that did not save what a step is made of
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
    const values = (calls ? columns : inTotals).map((name) => {
      const value = Number(row[name]);
      if (row[name] !== undefined && Number.isSafeInteger(value) && value >= 0) return [name, value] as const;
      if (row[name] !== undefined)
        throw new InputError(`${path}: ${name} of step ${i} is ${row[name]}, expected a number from 0`);
      throw new InputError(
        `${path}: has no column ${name}; expected a run in time, saved by this version or a later one`,
      );
    });
    return measured(Object.fromEntries(values) as unknown as StepRow);
  });
  return { steps, calls };
}

/** Only a real engine's report says it. */
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
