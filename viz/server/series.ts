import type { SeriesData } from "../api.ts";
import { Refusal } from "./refusal.ts";
import type { Table } from "./tables.ts";

/** The requested range and the limit of intervals. */
export interface SeriesRange {
  readonly fromNs: number;
  readonly toNs: number;
  readonly bins: number;
}

/** The shortest interval of a simulation. */
const shortestNs = 1_000_000;

/**
 * Series of a run with a clock, from series.parquet: neighbouring intervals are merged, with the mean of their values.
 *
 * @throws Refusal if the table is not a series
 */
export function seriesOf({ rowCount, columns }: Table, { fromNs, toNs, bins }: SeriesRange): SeriesData {
  const starts = columns.get("startNs");
  if (!starts) throw new Refusal(422, "series.parquet is damaged (it has no column startNs)");
  const intervalNs = rowCount > 1 ? starts[1] - starts[0] : shortestNs;
  let from = 0;
  while (from < rowCount && starts[from] + intervalNs <= fromNs) from++;
  let to = rowCount;
  while (to > from && starts[to - 1] >= toNs) to--;
  const names = [...columns.keys()].filter((name) => name !== "startNs" && name !== "durationNs");
  const each = Math.max(1, Math.ceil((to - from) / bins));
  const firsts = Array.from({ length: Math.ceil((to - from) / each) }, (_, bin) => from + bin * each);
  const endOf = (first: number) => Math.min(first + each, to);
  const mean = (column: Float64Array, first: number) => {
    let sum = 0;
    for (let row = first; row < endOf(first); row++) sum += column[row];
    return sum / (endOf(first) - first);
  };
  return {
    intervalNs,
    startNs: firsts.map((first) => starts[first]),
    endNs: firsts.map((first) => starts[endOf(first) - 1] + intervalNs),
    columns: Object.fromEntries(names.map((name) => [name, firsts.map((first) => mean(columns.get(name)!, first))])),
  };
}

/** Series of a run without a clock: metrics of its requests by arrival time. */
export function arrivalSeriesOf(table: Table, { fromNs, toNs, bins }: SeriesRange): SeriesData {
  const { rowCount } = table;
  const column = (name: string) => table.columns.get(name) ?? new Float64Array(rowCount);
  const [arrivals, input, hits, refused, warmup] = ["arrivalNs", "inputTokens", "hitTokens", "refused", "warmup"].map(
    column,
  );
  const counted = (row: number) => warmup[row] !== 1 && arrivals[row] >= fromNs && arrivals[row] < toNs;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < rowCount; row++)
    if (counted(row)) {
      first = Math.min(first, arrivals[row]);
      last = Math.max(last, arrivals[row]);
    }
  const intervalNs = Math.max(shortestNs, Math.ceil((last - first + 1) / bins));
  const count = last < first ? 0 : Math.ceil((last - first + 1) / intervalNs);
  const names = ["arrivals", "refused", "lookupTokens", "hitTokens", "computedTokens"] as const;
  const columns = Object.fromEntries(names.map((name) => [name, new Array<number>(count).fill(0)]));
  for (let row = 0; row < rowCount; row++) {
    if (!counted(row)) continue;
    const bin = Math.floor((arrivals[row] - first) / intervalNs);
    columns["arrivals"][bin]++;
    columns["refused"][bin] += refused[row];
    columns["lookupTokens"][bin] += input[row];
    columns["hitTokens"][bin] += hits[row];
    columns["computedTokens"][bin] += refused[row] === 1 ? 0 : input[row] - hits[row];
  }
  const startNs = Array.from({ length: count }, (_, bin) => first + bin * intervalNs);
  return {
    intervalNs: count === 0 ? shortestNs : intervalNs,
    startNs,
    endNs: startNs.map((start) => start + intervalNs),
    columns,
  };
}
