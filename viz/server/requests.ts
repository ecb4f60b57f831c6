import { quantile } from "../../core/serving/distribution.ts";
import { timesOf } from "../../core/serving/metrics.ts";
import type { PairData, RequestsData } from "../api.ts";
import { Refusal } from "./refusal.ts";
import type { Table } from "./tables.ts";

const latencyNames = ["ttftMs", "tpotMs", "e2eMs", "queueMs"] as const;

/** Columns in which −1 means that the event did not happen. */
const mayBeAbsent: readonly string[] = ["admittedNs", "firstTokenNs", "finishedNs", "replica"];

/** A metric of some requests. */
interface Metric {
  readonly request: Float64Array;
  readonly inputTokens: Float64Array;
  readonly value: Float64Array;
}

/** The requests of a run: the columns of requests.parquet and derived ones. NaN: absent. */
export class Requests {
  readonly total: number;
  readonly columns: ReadonlyMap<string, Float64Array>;

  /** @throws Refusal if the table is not one of requests */
  constructor(table: Table) {
    if (!table.columns.has("request")) throw new Refusal(422, "requests.parquet is damaged (it has no column request)");
    const absent = (name: string, values: Float64Array) =>
      mayBeAbsent.includes(name) ? values.map((value) => (value === -1 ? Number.NaN : value)) : values;
    this.total = table.rowCount;
    this.columns = new Map([
      ...[...table.columns].map(([name, values]) => [name, absent(name, values)] as const),
      ["hitRatio", hitRatios(table)],
      ...latencies(table),
    ]);
  }

  /** A sample of at most `points` requests at even distances. */
  drawn(points: number): RequestsData {
    const count = Math.min(points, this.total);
    const rows = Array.from({ length: count }, (_, i) => Math.floor((i * this.total) / count));
    const value = (values: Float64Array, row: number) => (Number.isNaN(values[row]) ? null : values[row]);
    const columns = [...this.columns].map(([name, values]) => [name, rows.map((row) => value(values, row))]);
    return { total: this.total, columns: Object.fromEntries(columns), quantiles: this.#quantiles() };
  }

  /** Quantiles as in the report: without the warm-up and refused requests. */
  #quantiles(): Record<string, number[]> {
    const warmup = this.columns.get("warmup");
    const all: Record<string, number[]> = {};
    for (const name of latencyNames) {
      const values = this.columns.get(name);
      const sorted = values?.filter((value, row) => !Number.isNaN(value) && warmup?.[row] !== 1).sort();
      if (sorted && sorted.length > 0)
        all[name] = Array.from({ length: 101 }, (_, percent) => quantile(sorted, percent / 100));
    }
    return all;
  }

  /** The metric of each measured request that has it, in the order of the trace. @throws Refusal if there is no such column */
  metric(name: string): Metric {
    const values = this.columns.get(name);
    const request = this.columns.get("request")!;
    if (!values)
      throw new Refusal(400, `requests have no such metric, expected one of ${[...this.columns.keys()].join(", ")}`);
    const warmup = this.columns.get("warmup");
    const isIn = (_: number, row: number) => warmup?.[row] !== 1 && !Number.isNaN(values[row]);
    const inputTokens = this.columns.get("inputTokens") ?? new Float64Array(this.total);
    return { request: request.filter(isIn), inputTokens: inputTokens.filter(isIn), value: values.filter(isIn) };
  }
}

function hitRatios({ rowCount, columns }: Table): Float64Array {
  const [hits, input] = [columns.get("hitTokens"), columns.get("inputTokens")];
  return new Float64Array(rowCount).map((_, row) => (hits && input ? hits[row] / input[row] : Number.NaN));
}

/** Latencies of a run with a clock. */
function latencies({ rowCount, columns }: Table): [string, Float64Array][] {
  const [refused, arrivalNs, admittedNs, firstTokenNs, finishedNs, outputTokens] = [
    ...["refused", "arrivalNs", "admittedNs", "firstTokenNs", "finishedNs", "outputTokens"],
  ].map((name) => columns.get(name));
  if (!refused || !arrivalNs || !admittedNs || !firstTokenNs || !finishedNs || !outputTokens) return [];
  const outcomes = { refused, arrivalNs, admittedNs, firstTokenNs, finishedNs, outputTokens };
  const all = latencyNames.map((name) => [name, new Float64Array(rowCount)] as [string, Float64Array]);
  for (let row = 0; row < rowCount; row++) {
    const times = finishedNs[row] === -1 ? undefined : timesOf(outcomes, row);
    latencyNames.forEach((name, i) => {
      all[i][1][row] = times?.[name] ?? Number.NaN;
    });
  }
  return all;
}

/** Requests of both runs, the largest differences first, at most `points`. @throws Refusal if the traces differ */
export function pairsOf(a: Requests, b: Requests, metric: string, points: number): PairData {
  const [left, right] = [a.metric(metric), b.metric(metric)];
  const rows: { readonly i: number; readonly j: number; readonly difference: number }[] = [];
  for (let i = 0, j = 0; i < left.request.length && j < right.request.length; ) {
    if (left.request[i] < right.request[j]) i++;
    else if (left.request[i] > right.request[j]) j++;
    else {
      if (left.inputTokens[i] !== right.inputTokens[j])
        throw new Refusal(409, `the runs are of different traces: request ${left.request[i]} is not the same`);
      rows.push({ i, j, difference: Math.abs(left.value[i] - right.value[j]) });
      i++;
      j++;
    }
  }
  rows.sort((one, other) => other.difference - one.difference || one.i - other.i);
  const shown = rows.slice(0, points);
  return {
    metric,
    total: rows.length,
    request: shown.map(({ i }) => left.request[i]),
    a: shown.map(({ i }) => left.value[i]),
    b: shown.map(({ j }) => right.value[j]),
  };
}
