import { type ColumnSource, fileWriter, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { type EventLog, eventNames } from "../core/events.ts";
import type { RequestResults } from "../core/replay.ts";
import { breathe } from "./interrupt.ts";

/** A column of a table: its rows `[from, to)` as Parquet takes them. */
interface Column {
  readonly name: string;
  readonly type: "INT32" | "INT64" | "BOOLEAN" | "STRING";
  rows(from: number, to: number): ColumnSource["data"];
}

const rowsPerGroup = 100_000;

/** Writes a table group by group, so that it can be interrupted and never is in memory a second time as a whole. */
async function writeTable(path: string, rowCount: number, columns: readonly Column[]): Promise<void> {
  const data = (from: number, to: number): ColumnSource[] =>
    columns.map(({ name, rows }) => ({ name, data: rows(from, to) }));
  const schema = schemaFromColumnData({
    columnData: columns.map(({ name, type }) => ({ name, type, data: [], nullable: false })),
  });
  const writer = new ParquetWriter({ writer: fileWriter(path), schema, createdBy: "kvlab" });
  for (let from = 0; from < rowCount; from += rowsPerGroup) {
    const to = Math.min(from + rowsPerGroup, rowCount);
    await writer.write({ columnData: data(from, to), rowGroupSize: rowsPerGroup });
    await breathe();
  }
  await writer.finish();
}

type Numbers = Uint32Array | Int32Array | Float64Array | Uint8Array;

const int32 = (name: string, values: Uint32Array | Int32Array): Column => ({
  name,
  type: "INT32",
  rows: (from, to) => Int32Array.from(values.subarray(from, to)),
});
const int64 = (name: string, values: Numbers): Column => ({
  name,
  type: "INT64",
  rows: (from, to) => BigInt64Array.from(values.subarray(from, to), BigInt),
});
const boolean = (name: string, at: (row: number) => boolean): Column => ({
  name,
  type: "BOOLEAN",
  rows: (from, to) => Array.from({ length: to - from }, (_, i) => at(from + i)),
});

/** 0, 1, 2, … */
const numbers = (count: number) => Uint32Array.from({ length: count }, (_, i) => i);

/** A row for each request, in order of arrival; `warmup` of them are in no figure. */
export async function writeRequests(path: string, requests: RequestResults, warmup: number): Promise<void> {
  const count = requests.arrivalNs.length;
  await writeTable(path, count, [
    int32("request", numbers(count)),
    int64("arrivalNs", requests.arrivalNs),
    int32("inputTokens", requests.inputTokens),
    int32("outputTokens", requests.outputTokens),
    int32("promptBlocks", requests.promptBlocks),
    int32("hitBlocks", requests.hitBlocks),
    int32("hitTokens", requests.hitTokens),
    boolean("refused", (row) => requests.refused[row] === 1),
    boolean("warmup", (row) => row < warmup),
  ]);
}

/** A row for each step. Without a clock every request that is not refused is one step, which computes what was missed. */
export async function writeSteps(path: string, results: RequestResults): Promise<void> {
  const { inputTokens, hitTokens, refused } = results;
  const served = numbers(refused.length).filter((row) => refused[row] === 0);
  await writeTable(path, served.length, [
    int32("step", numbers(served.length)),
    int32("request", served),
    int32("requests", new Uint32Array(served.length).fill(1)),
    int32(
      "cachedTokens",
      served.map((row) => hitTokens[row]),
    ),
    int32(
      "computedTokens",
      served.map((row) => inputTokens[row] - hitTokens[row]),
    ),
  ]);
}

/** A row for each event, in order; what an event says nothing about is −1. */
export async function writeEvents(path: string, log: EventLog): Promise<void> {
  const { kind, timeNs, request, block, key, value } = log.columns();
  await writeTable(path, log.count, [
    { name: "event", type: "STRING", rows: (from, to) => Array.from(kind.subarray(from, to), (k) => eventNames[k]) },
    int64("timeNs", timeNs),
    int32("request", request),
    int32("block", block),
    int64("key", key),
    int32("value", value),
  ]);
}
