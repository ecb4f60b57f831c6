import { seededRandom } from "../../core/random.ts";
import { distribution, quantile } from "../../core/serving/distribution.ts";
import type { RequestTimes } from "./recorded-run.ts";

export const metrics = ["ttftMs", "tpotMs", "latencyMs", "makespanMs"] as const;
export const statistics = ["mean", "p50", "p90", "p95", "p99"] as const;
export type Metric = (typeof metrics)[number];
export type Statistic = (typeof statistics)[number];

/** One statistic of both runs. `low` and `high` limit the 95 % bootstrap interval of the difference. */
export interface ErrorRow {
  readonly metric: Metric;
  readonly statistic: Statistic;
  readonly recorded: number;
  readonly simulated: number;
  /** Simulated ÷ recorded − 1. */
  readonly difference: number;
  readonly low: number;
  readonly high: number;
}

/** Requests that arrive one after the other are drawn together, because they wait for each other. */
const blockRequests = 10;
const samples = 1000;

/**
 * Every metric and statistic of the recorded and the simulated requests. Intervals are from a moving-block bootstrap over requests
 * in the order of arrival (Künsch, 1989), the same requests of both runs in each sample. The makespan has one row, as its mean.
 */
export function errorRows(recorded: RequestTimes, simulated: RequestTimes, seed = 1): ErrorRow[] {
  const count = recorded.queuedMs.length;
  const all = Int32Array.from({ length: count }, (_, row) => row);
  const of = (rows: Int32Array) => [statisticsOf(recorded, rows), statisticsOf(simulated, rows)] as const;
  const [a, b] = of(all);
  const random = seededRandom(seed);
  const block = Math.min(blockRequests, count);
  const drawn = Array.from({ length: samples }, () => {
    const rows = new Int32Array(count);
    for (let i = 0; i < count; i += block) {
      const from = random.below(count - block + 1);
      for (let k = i; k < Math.min(i + block, count); k++) rows[k] = from + k - i;
    }
    const [recordedSample, simulatedSample] = of(rows);
    return recordedSample.map(({ value }, i) => simulatedSample[i].value / value - 1);
  });
  return a.map(({ metric, statistic, value }, i) => {
    const differences = Float64Array.from(drawn, (sample) => sample[i]).sort();
    return {
      ...{ metric, statistic, recorded: value, simulated: b[i].value, difference: b[i].value / value - 1 },
      low: quantile(differences, 0.025),
      high: quantile(differences, 0.975),
    };
  });
}

function statisticsOf({ queuedMs, firstTokenMs, finishedMs, outputTokens }: RequestTimes, rows: Int32Array) {
  const values: Record<"ttftMs" | "tpotMs" | "latencyMs", number[]> = { ttftMs: [], tpotMs: [], latencyMs: [] };
  let [start, end] = [Number.POSITIVE_INFINITY, 0];
  for (const row of rows) {
    const [queued, first, last] = [queuedMs[row], firstTokenMs[row], finishedMs[row]];
    values.ttftMs.push(first - queued);
    values.latencyMs.push(last - queued);
    if (outputTokens[row] > 1) values.tpotMs.push((last - first) / (outputTokens[row] - 1));
    start = Math.min(start, queued);
    end = Math.max(end, last);
  }
  const rowsOf = (["ttftMs", "tpotMs", "latencyMs"] as const).flatMap((metric) => {
    const found = distribution(Float64Array.from(values[metric]));
    return statistics.map((statistic) => ({
      metric: metric as Metric,
      statistic,
      value: found?.[statistic] ?? Number.NaN,
    }));
  });
  return [...rowsOf, { metric: "makespanMs" as const, statistic: "mean" as const, value: end - start }];
}

/** Sum over the requests of the squared errors of TTFT and latency, ms². */
export function squaredError(recorded: RequestTimes, simulated: RequestTimes): number {
  return recorded.queuedMs.reduce((sum, queued, row) => {
    const wait = simulated.queuedMs[row] - queued;
    const first = simulated.firstTokenMs[row] - recorded.firstTokenMs[row] - wait;
    const last = simulated.finishedMs[row] - recorded.finishedMs[row] - wait;
    return sum + first ** 2 + last ** 2;
  }, 0);
}

/** Errors of single requests. */
export interface RequestErrors {
  /** Mean of |simulated − recorded|, ms. */
  readonly ttftMsMeanAbsolute: number;
  readonly latencyMsMeanAbsolute: number;
  /** Quantiles over the requests of simulated ÷ recorded − 1 of TPOT: the mean duration of the steps of a request. */
  readonly tpotP5: number;
  readonly tpotP50: number;
  readonly tpotP95: number;
  /** Share of the requests whose first token has the recorded place in the order of first tokens. */
  readonly firstTokensInOrder: number;
}

export function requestErrors(recorded: RequestTimes, simulated: RequestTimes): RequestErrors {
  const rows = Array.from(recorded.queuedMs.keys());
  const meanAbsolute = (of: (times: RequestTimes, row: number) => number) =>
    rows.reduce((sum, row) => sum + Math.abs(of(simulated, row) - of(recorded, row)), 0) / rows.length;
  const order = ({ firstTokenMs }: RequestTimes) =>
    [...rows].sort((a, b) => firstTokenMs[a] - firstTokenMs[b] || a - b);
  const [a, b] = [order(recorded), order(simulated)];
  const decodeMs = ({ firstTokenMs, finishedMs }: RequestTimes, row: number) => finishedMs[row] - firstTokenMs[row];
  const tpot = Float64Array.from(
    rows.filter((row) => recorded.outputTokens[row] > 1),
    (row) => decodeMs(simulated, row) / decodeMs(recorded, row) - 1,
  ).sort();
  return {
    ttftMsMeanAbsolute: meanAbsolute(({ firstTokenMs, queuedMs }, row) => firstTokenMs[row] - queuedMs[row]),
    latencyMsMeanAbsolute: meanAbsolute(({ finishedMs, queuedMs }, row) => finishedMs[row] - queuedMs[row]),
    tpotP5: quantile(tpot, 0.05),
    tpotP50: quantile(tpot, 0.5),
    tpotP95: quantile(tpot, 0.95),
    firstTokensInOrder: a.filter((row, i) => row === b[i]).length / a.length,
  };
}
