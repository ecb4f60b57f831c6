import { type ColumnSource, fileWriter, ParquetWriter, schemaFromColumnData } from "hyparquet-writer";
import { EventLog } from "../../core/log/event-log.ts";
import { eventNames } from "../../core/log/events.ts";
import type { RequestResults } from "../../core/replica/replay.ts";
import { never, type Outcomes } from "../../core/serving/outcomes.ts";
import type { StepTable } from "../../core/serving/step-table.ts";
import { countNames, levelNames, type TimeSeries } from "../../core/serving/time-series.ts";
import { yieldToEvents } from "../control.ts";

/** A column of a table; `rows` returns the values of the rows `[from, to)`. */
interface Column {
  readonly name: string;
  readonly type: "INT32" | "INT64" | "DOUBLE" | "BOOLEAN" | "STRING";
  rows(from: number, to: number): ColumnSource["data"];
}

/** A Parquet file to write; aborting the signal ends the writing with `Interrupted`. */
export interface TableFile {
  readonly path: string;
  readonly signal?: AbortSignal | undefined;
}

const rowsPerGroup = 100_000;

/** Writes a table group by group, so that it can be interrupted and is never copied as a whole. */
async function writeTable({ path, signal }: TableFile, rowCount: number, columns: readonly Column[]): Promise<void> {
  const data = (from: number, to: number): ColumnSource[] =>
    columns.map(({ name, rows }) => ({ name, data: rows(from, to) }));
  const schema = schemaFromColumnData({
    columnData: columns.map(({ name, type }) => ({ name, type, data: [], nullable: false })),
  });
  const writer = new ParquetWriter({ writer: fileWriter(path), schema, createdBy: "kvlab" });
  for (let from = 0; from < rowCount; from += rowsPerGroup) {
    const to = Math.min(from + rowsPerGroup, rowCount);
    await writer.write({ columnData: data(from, to), rowGroupSize: rowsPerGroup });
    await yieldToEvents(signal);
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
const double = (name: string, values: Float64Array): Column => ({
  name,
  type: "DOUBLE",
  rows: (from, to) => values.slice(from, to),
});
const boolean = (name: string, at: (row: number) => boolean): Column => ({
  name,
  type: "BOOLEAN",
  rows: (from, to) => Array.from({ length: to - from }, (_, i) => at(from + i)),
});

/** 0, 1, 2, … */
const numbers = (count: number) => Uint32Array.from({ length: count }, (_, i) => i);

/**
 * A row for each request, in the order of the trace; the first `warmup` ones are marked. Timed runs also have times in ns, −1 for
 * events that did not happen; an interrupted run has only finished requests.
 */
export async function writeRequests(
  file: TableFile,
  requests: RequestResults,
  warmup: number,
  simulated?: Outcomes,
): Promise<void> {
  const hasEnded = (_: number, row: number) => simulated?.finishedNs[row] !== never;
  const of = <T extends Numbers>(values: T) => values.filter(hasEnded) as T;
  const rows = of(numbers(requests.arrivalNs.length));
  await writeTable(file, rows.length, [
    int32("request", rows),
    int64("arrivalNs", of(requests.arrivalNs)),
    int32("inputTokens", of(requests.inputTokens)),
    int32("outputTokens", of(requests.outputTokens)),
    int32("promptBlocks", of(requests.promptBlocks)),
    int32("hitBlocks", of(requests.hitBlocks)),
    int32("hitTokens", of(requests.hitTokens)),
    boolean("refused", (at) => requests.refused[rows[at]] === 1),
    boolean("warmup", (at) => rows[at] < warmup),
    ...(simulated ? times(simulated, of) : []),
  ]);
}

const times = (outcomes: Outcomes, of: <T extends Numbers>(values: T) => T): Column[] => [
  int32("replica", of(outcomes.replica)),
  int64("admittedNs", of(outcomes.admittedNs)),
  int64("firstTokenNs", of(outcomes.firstTokenNs)),
  int64("finishedNs", of(outcomes.finishedNs)),
  int32("preemptions", of(outcomes.preemptions)),
];

/** A row for each step of a simulation, in the order in which they ended. */
export async function writeSimulatedSteps(file: TableFile, steps: StepTable): Promise<void> {
  const column = (values: readonly number[]) => Uint32Array.from(values);
  await writeTable(file, steps.startNs.length, [
    int32("step", numbers(steps.startNs.length)),
    int32("replica", column(steps.replica)),
    int64("startNs", Float64Array.from(steps.startNs)),
    int64("durationNs", Float64Array.from(steps.durationNs)),
    int32("sequences", column(steps.sequences)),
    int32("prefillTokens", column(steps.prefillTokens)),
    int32("decodeTokens", column(steps.decodeTokens)),
    int64("contextTokens", Float64Array.from(steps.contextTokens)),
    int64("prefillContextTokens", Float64Array.from(steps.prefillContextTokens)),
    int32("prefillSequences", column(steps.prefillSequences)),
    int64("prefillPairs", Float64Array.from(steps.prefillPairs)),
    int32("logits", column(steps.logits)),
    int32("calls", column(steps.calls)),
    int64("paddedContextTokens", Float64Array.from(steps.paddedContextTokens)),
    int64("farContextTokens", Float64Array.from(steps.farContextTokens)),
    int64("paddedPairs", Float64Array.from(steps.paddedPairs)),
    int32("copiedBlocks", column(steps.copiedBlocks)),
    int32("swappedTokens", column(steps.swappedTokens)),
  ]);
}

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

/** A row for each step. Without a clock every request that is not refused is one step, which computes its misses. */
export async function writeSteps(file: TableFile, results: RequestResults): Promise<void> {
  const { inputTokens, hitTokens, refused } = results;
  const served = numbers(refused.length).filter((row) => refused[row] === 0);
  await writeTable(file, served.length, [
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

/** A row for each event in order, one replica after the other; fields that an event does not have are −1. */
export async function writeEvents(file: TableFile, logs: readonly EventLog[]): Promise<void> {
  const all = joined(logs);
  const { kind, timeNs, request, block, key, value } = all.log.columns();
  await writeTable(file, all.log.count, [
    { name: "event", type: "STRING", rows: (from, to) => Array.from(kind.subarray(from, to), (k) => eventNames[k]) },
    int64("timeNs", timeNs),
    int32("request", request),
    int32("block", block),
    int64("key", key),
    int32("value", value),
    ...(logs.length > 1 ? [int32("replica", all.replica)] : []),
  ]);
}

/** The logs of all replicas, one after the other. */
function joined(logs: readonly EventLog[]): { readonly log: EventLog; readonly replica: Int32Array } {
  const [first] = logs;
  if (logs.length === 1) return { log: first, replica: new Int32Array(0) };
  const log = new EventLog();
  const replicas: number[] = [];
  logs.forEach((each, replica) => {
    const { kind, timeNs, request, block, key, value } = each.columns();
    for (let i = 0; i < each.count; i++) {
      log.add(kind[i], timeNs[i], request[i], block[i], key[i], value[i]);
      replicas.push(replica);
    }
  });
  return { log, replica: Int32Array.from(replicas) };
}
