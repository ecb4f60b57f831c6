import { quantile } from "../../core/serving/distribution.ts";
import type { LatencySeries, SeriesData } from "../api.ts";

/** Latencies, and the column with the time at which each is known. */
const latencies = [
  ["ttftMs", "firstTokenNs"],
  ["tpotMs", "finishedNs"],
  ["queueMs", "admittedNs"],
] as const;

/** A percentile of few requests is that of single ones. */
const mostIntervals = 60;

type Columns = ReadonlyMap<string, Float64Array>;

/** Quantiles of the latencies in intervals of the series, neighbours merged; undefined: the run has no clock. */
export function latencySeriesOf(
  columns: Columns,
  { startNs, endNs }: Pick<SeriesData, "startNs" | "endNs">,
): LatencySeries | undefined {
  if (startNs.length === 0 || !columns.has("ttftMs")) return undefined;
  const each = Math.ceil(startNs.length / mostIntervals);
  const starts = startNs.filter((_, i) => i % each === 0);
  const ends = starts.map((_, i) => endNs[Math.min(endNs.length, (i + 1) * each) - 1]);
  const entries = latencies.map(([name, at]) => [name, quantilesIn(columns, name, at, starts, ends.at(-1)!)] as const);
  return { startNs: starts, endNs: ends, columns: Object.fromEntries(entries) };
}

function quantilesIn(columns: Columns, name: string, at: string, starts: readonly number[], end: number) {
  const [values, times, warmup] = [columns.get(name)!, columns.get(at)!, columns.get("warmup")];
  const inIntervals: number[][] = starts.map(() => []);
  const length = starts.length > 1 ? starts[1] - starts[0] : Number.POSITIVE_INFINITY;
  for (let row = 0; row < values.length; row++) {
    const time = times[row];
    if (Number.isNaN(values[row]) || warmup?.[row] === 1 || !(time >= starts[0] && time <= end)) continue;
    inIntervals[Math.min(starts.length - 1, Math.floor((time - starts[0]) / length))].push(values[row]);
  }
  const sorted = inIntervals.map((some) => Float64Array.from(some).sort());
  const quantiles = (share: number) => sorted.map((some) => (some.length === 0 ? null : quantile(some, share)));
  return { p50: quantiles(0.5), p99: quantiles(0.99) };
}
