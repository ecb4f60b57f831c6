import { rename } from "node:fs/promises";
import { type ColumnSource, fileWriter, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { eventNames } from "../../core/log/events.ts";
import { countNames, levelNames, type TimeSeries } from "../../core/serving/time-series.ts";
import { yieldToEvents } from "../control.ts";
import type { CurveDocument } from "../curve/curve-document.ts";
import type { Residency } from "../explain/explanation.ts";
import { residencyNames, unitOf } from "../explain/residency.ts";
import { metrics } from "./hit-ratios.ts";
import type { LogStore } from "./log-store.ts";

/** A column of a table; `rows` returns the values of the rows `[from, to)`. */
export interface Column {
  readonly name: string;
  readonly type: "INT32" | "INT64" | "DOUBLE" | "BOOLEAN" | "STRING";
  rows(from: number, to: number): ColumnSource["data"];
}

/** A Parquet file to write; aborting the signal ends the writing with `Interrupted`. */
export interface TableFile {
  readonly path: string;
  readonly signal?: AbortSignal | undefined;
}

export const rowsPerGroup = 100_000;

/** A Parquet file that is written group by group. */
function openTable(path: string, columns: readonly Pick<Column, "name" | "type">[]) {
  const columnData = columns.map(({ name, type }) => ({ name, type, data: [], nullable: false }));
  const schema = schemaFromColumnData({ columnData });
  const writer = new ParquetWriter({ writer: fileWriter(path), schema, createdBy: "kvlab" });
  return {
    write: (data: readonly ColumnSource["data"][]) =>
      writer.write({
        columnData: columns.map(({ name }, i) => ({ name, data: data[i] })),
        rowGroupSize: rowsPerGroup,
      }),
    finish: () => writer.finish(),
  };
}

/** Writes a table group by group, so that it can be interrupted and is never copied as a whole. */
async function writeTable({ path, signal }: TableFile, rowCount: number, columns: readonly Column[]): Promise<void> {
  const table = openTable(path, columns);
  for (let from = 0; from < rowCount; from += rowsPerGroup) {
    const to = Math.min(from + rowsPerGroup, rowCount);
    await table.write(columns.map(({ rows }) => rows(from, to)));
    await yieldToEvents(signal);
  }
  await table.finish();
}

/**
 * A table whose rows are added during a run. Rows stay in memory until they fill a group; `pathOf` returns the path of the file
 * when the first group is written, which a table of a small run never is.
 */
export class GrowingTable {
  readonly #pathOf: () => string | undefined;
  #columns: readonly Column[] = [];
  /** By column: its values since the last group, in pieces. */
  #pieces: ColumnSource["data"][][] = [];
  #rowCount = 0;
  #path: string | undefined;
  #table: ReturnType<typeof openTable> | undefined;

  constructor(pathOf: () => string | undefined) {
    this.#pathOf = pathOf;
  }

  add(rowCount: number, columns: readonly Column[]): void {
    if (this.#columns.length === 0) this.#pieces = columns.map(() => []);
    this.#columns = columns.map(({ name, type }) => ({ name, type, rows: () => [] }));
    for (const [i, { rows }] of columns.entries()) this.#pieces[i].push(rows(0, rowCount));
    this.#rowCount += rowCount;
    if (this.#rowCount < rowsPerGroup) return;
    this.#path ??= this.#pathOf();
    if (this.#path === undefined) return;
    this.#table ??= openTable(this.#path, this.#columns);
    const all = this.#pieces.map(concatenated);
    let from = 0;
    for (; from + rowsPerGroup <= this.#rowCount; from += rowsPerGroup)
      this.#table.write(all.map((data) => data.slice(from, from + rowsPerGroup)));
    this.#pieces = all.map((data) => [data.slice(from)]);
    this.#rowCount -= from;
  }

  /** Completes the table, and moves it to `path`. */
  async finish({ path, signal }: TableFile): Promise<void> {
    const all = this.#pieces.map(concatenated);
    const columns = this.#columns.map((column, i) => ({
      ...column,
      rows: (from: number, to: number) => all[i].slice(from, to),
    }));
    if (this.#table === undefined || this.#path === undefined) {
      await writeTable({ path, signal }, this.#rowCount, columns);
      return;
    }
    if (this.#rowCount > 0) await this.#table.write(all);
    await this.#table.finish();
    await rename(this.#path, path);
  }
}

/** The pieces of a column, one after the other. */
function concatenated(pieces: readonly ColumnSource["data"][]): ColumnSource["data"] {
  if (pieces.length === 1) return pieces[0];
  if (pieces.every((piece) => Array.isArray(piece))) return pieces.flat();
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const whole = new (pieces[0].constructor as Int32ArrayConstructor)(length);
  let at = 0;
  for (const piece of pieces as Int32Array[]) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export type Numbers = Uint32Array | Int32Array | Float64Array | Uint8Array;

export const int32 = (name: string, values: Uint32Array | Int32Array): Column => ({
  name,
  type: "INT32",
  rows: (from, to) => Int32Array.from(values.subarray(from, to)),
});
export const int64 = (name: string, values: Numbers): Column => ({
  name,
  type: "INT64",
  rows: (from, to) => BigInt64Array.from(values.subarray(from, to), BigInt),
});
const double = (name: string, values: Float64Array): Column => ({
  name,
  type: "DOUBLE",
  rows: (from, to) => values.slice(from, to),
});
export const boolean = (name: string, at: (row: number) => boolean): Column => ({
  name,
  type: "BOOLEAN",
  rows: (from, to) => Array.from({ length: to - from }, (_, i) => at(from + i)),
});

const string = (name: string, at: (row: number) => string): Column => ({
  name,
  type: "STRING",
  rows: (from, to) => Array.from({ length: to - from }, (_, i) => at(from + i)),
});

/** `count` consecutive numbers. */
export const numbers = (first: number, count: number) => Uint32Array.from({ length: count }, (_, i) => first + i);

/** A row for each interval of a timed run: mean levels and sums of counts, over all replicas. */
export async function writeSeries(file: TableFile, series: TimeSeries): Promise<void> {
  const { count, startNs, intervalNs, levels, counts } = series;
  const mean = (values: Float64Array) => values.subarray(0, count).map((value, i) => value / series.lengthNs(i));
  await writeTable(file, count, [
    int64(
      "startNs",
      Float64Array.from({ length: count }, (_, i) => startNs + i * intervalNs),
    ),
    int64(
      "durationNs",
      Float64Array.from({ length: count }, (_, i) => series.lengthNs(i)),
    ),
    ...levelNames.map((name) => double(name, mean(levels[name]))),
    ...countNames.map((name) => int64(name, counts[name].subarray(0, count))),
  ]);
}

/** A row for each bin of the histograms of residency. */
export async function writeResidency(file: TableFile, residency: Residency): Promise<void> {
  const rows = residencyNames.flatMap((name) => residency[name].bins.map((bin) => ({ name, ...bin })));
  const column = (of: (row: (typeof rows)[number]) => number) => Float64Array.from(rows, of);
  await writeTable(file, rows.length, [
    string("histogram", (row) => rows[row].name),
    string("unit", (row) => unitOf(rows[row].name, residency.ageUnit)),
    int64(
      "from",
      column(({ from }) => from),
    ),
    int64(
      "below",
      column(({ below }) => below),
    ),
    int64(
      "count",
      column(({ count }) => count),
    ),
  ]);
}

/** A row for each point of each curve. Hit ratios that a bound does not have are NaN, and its refused requests −1. */
export async function writeCurves(file: TableFile, { curves, seed }: CurveDocument): Promise<void> {
  const rows = curves.flatMap(({ points, ...curve }) => points.map((point) => ({ curve, point })));
  type Row = (typeof rows)[number];
  const column = (of: (row: Row) => number) => Float64Array.from(rows, of);
  await writeTable(file, rows.length, [
    string("preset", (row) => rows[row].curve.preset ?? ""),
    string("index", (row) => rows[row].curve.index),
    string("eviction", (row) => rows[row].curve.eviction),
    string("rules", (row) => rows[row].curve.rules.join(" ")),
    int64(
      "seed",
      column(({ curve }) => curve.seed ?? seed),
    ),
    string("method", (row) => rows[row].curve.method),
    boolean("exact", (row) => rows[row].curve.exact),
    int64(
      "blocks",
      column(({ point }) => point.blocks),
    ),
    ...metrics.map((metric) =>
      double(
        metric,
        column(({ point }) => point.hitRatio[metric] ?? Number.NaN),
      ),
    ),
    double(
      "low",
      column(({ point }) => point.low),
    ),
    double(
      "high",
      column(({ point }) => point.high),
    ),
    int64(
      "refusedRequests",
      column(({ point }) => point.refusedRequests ?? -1),
    ),
  ]);
}

/** A row for each event in order, one replica after the other; fields that an event does not have are −1. */
export async function writeEvents({ path, signal }: TableFile, logs: readonly LogStore[]): Promise<void> {
  const table = new GrowingTable(() => path);
  for (const [replica, log] of logs.entries())
    for (const { kind, timeNs, request, block, key, value } of log.pieces()) {
      const { length } = kind;
      table.add(length, [
        { name: "event", type: "STRING", rows: () => Array.from(kind, (k) => eventNames[k]) },
        int64("timeNs", timeNs),
        int32("request", request),
        int32("block", block),
        int64("key", key),
        int32("value", value),
        ...(logs.length > 1 ? [int32("replica", new Int32Array(length).fill(replica))] : []),
      ]);
      await yieldToEvents(signal);
    }
  await table.finish({ path, signal });
}

/** Records as rows: a column for each field, of text unless all its values are numbers. A missing number is NaN, a missing text empty. */
export async function writeRecords(
  file: TableFile,
  records: readonly Readonly<Record<string, string | number | boolean | undefined>>[],
): Promise<void> {
  const names = [...new Set(records.flatMap((record) => Object.keys(record)))];
  const columns = names.map((name) => {
    const isNumber = records.every((record) => record[name] === undefined || typeof record[name] === "number");
    return isNumber
      ? double(
          name,
          Float64Array.from(records, (record) => Number(record[name] ?? Number.NaN)),
        )
      : string(name, (row) => String(records[row][name] ?? ""));
  });
  await writeTable(file, records.length, columns);
}
