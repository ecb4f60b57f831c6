import { yieldToEvents } from "../control.ts";
import type { TableFile } from "../output/parquet.ts";
import { writeRecords } from "../output/parquet.ts";
import type { Scalar } from "./axes.ts";

/** Parts of a report whose numbers are metrics. */
const metricParts = ["cache", "latency", "throughput", "load", "cluster", "refusals", "transfers", "drafts"] as const;

/** Rows between two checks for a signal. */
const rowsPerYield = 100;

/** A row for each configuration: its key, the options that vary, and every number of its report's metrics. `textOf` returns a result. */
export async function writeResultTable(
  file: TableFile,
  rows: readonly { readonly key: string; readonly varied: Readonly<Record<string, Scalar>> }[],
  textOf: (key: string) => string,
): Promise<void> {
  const records: Record<string, Scalar | undefined>[] = [];
  for (const [i, { key, varied }] of rows.entries()) {
    if (i % rowsPerYield === 0) await yieldToEvents(file.signal);
    const report = JSON.parse(textOf(key));
    const { blocks, blockTokens } = report.policy;
    const record: Record<string, Scalar | undefined> = { key, ...varied };
    const add = (name: string, value: Scalar) => {
      if (!(name in record)) record[name] = value;
    };
    if (blocks !== null) add("policy.blocks", blocks);
    add("policy.blockTokens", blockTokens);
    for (const part of metricParts) for (const [name, value] of numbersIn(report[part], part)) add(name, value);
    records.push(record);
  }
  await writeRecords(file, records);
}

/** The numbers in a part of a report, by their paths; those in lists are left out. */
function* numbersIn(value: unknown, path: string): Generator<[string, number]> {
  if (typeof value === "number") yield [path, value];
  else if (typeof value === "object" && value !== null && !Array.isArray(value))
    for (const [name, each] of Object.entries(value)) yield* numbersIn(each, `${path}.${name}`);
}
