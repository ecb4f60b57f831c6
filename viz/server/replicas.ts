import { quantile } from "../../core/serving/distribution.ts";
import type { ReplicaRow, ReplicasData } from "../api.ts";
import { Refusal } from "./refusal.ts";
import type { Requests } from "./requests.ts";
import type { Table } from "./tables.ts";

const required = ["arrivalNs", "admittedNs", "finishedNs", "inputTokens", "hitTokens", "ttftMs", "refused"];

/** Responses have at most so many replicas. */
const mostReplicas = 256;

/** Equal intervals from the first arrival to the last end of a measured request. */
interface Intervals {
  readonly startNs: number;
  readonly lengthNs: number;
  readonly count: number;
}

/**
 * The replicas of a run, and each over time. `steps`: replica, start and duration of the steps.
 *
 * @throws Refusal if the run has no clock
 */
export function replicasOf(requests: Requests, steps: Table | undefined, bins: number): ReplicasData {
  const replica = requests.columns.get("replica");
  if (!replica) throw new Refusal(404, "the run has no clock, and one replica");
  const missing = required.find((name) => !requests.columns.has(name));
  if (missing) throw new Refusal(422, `requests.parquet is damaged (it has no column ${missing})`);
  const intervals = intervalsOf(requests, bins);
  const all = [...new Set(replica)].filter((each) => !Number.isNaN(each)).sort((a, b) => a - b);
  const numbers = all.slice(0, mostReplicas);
  const busy = steps && busyNsOf(steps, intervals, numbers);
  const starts = Array.from({ length: intervals.count }, (_, i) => intervals.startNs + i * intervals.lengthNs);
  return {
    startNs: starts,
    endNs: starts.map((start) => start + intervals.lengthNs),
    replicas: numbers.map((number) => ({
      ...rowOf(requests, number, intervals),
      ...(busy && { utilisation: busy.get(number)!.map((ns) => Math.min(1, ns / intervals.lengthNs)) }),
    })),
  };
}

function isMeasured({ columns }: Requests): (row: number) => boolean {
  const warmup = columns.get("warmup");
  return (row) => warmup?.[row] !== 1;
}

function intervalsOf(requests: Requests, bins: number): Intervals {
  const [arrivals, ends] = ["arrivalNs", "finishedNs"].map((name) => requests.columns.get(name)!);
  const measured = isMeasured(requests);
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let row = 0; row < requests.total; row++) {
    if (!measured(row)) continue;
    first = Math.min(first, arrivals[row]);
    if (!Number.isNaN(ends[row])) last = Math.max(last, ends[row]);
  }
  if (last <= first) return { startNs: 0, lengthNs: 1, count: 0 };
  return { startNs: first, lengthNs: (last - first) / bins, count: bins };
}

const indexOf = ({ startNs, lengthNs, count }: Intervals, timeNs: number) =>
  Math.min(count - 1, Math.floor((timeNs - startNs) / lengthNs));

function rowOf(requests: Requests, number: number, intervals: Intervals): ReplicaRow {
  const column = (name: string) => requests.columns.get(name)!;
  const [replica, admitted, ended, input, hits, ttft, refused] = [
    ...["replica", "admittedNs", "finishedNs", "inputTokens", "hitTokens", "ttftMs", "refused"],
  ].map(column);
  const measured = isMeasured(requests);
  const zeros = () => new Array<number>(intervals.count).fill(0);
  const [finished, inputs, hit] = [zeros(), zeros(), zeros()];
  const times: number[] = [];
  let count = 0;
  for (let row = 0; row < requests.total; row++) {
    if (replica[row] !== number || !measured(row)) continue;
    count++;
    if (!Number.isNaN(ttft[row])) times.push(ttft[row]);
    if (refused[row] !== 1 && !Number.isNaN(ended[row])) finished[indexOf(intervals, ended[row])]++;
    if (Number.isNaN(admitted[row])) continue;
    const at = indexOf(intervals, admitted[row]);
    inputs[at] += input[row];
    hit[at] += hits[row];
  }
  const sorted = Float64Array.from(times).sort();
  const at = (share: number) => (sorted.length === 0 ? null : quantile(sorted, share));
  const ratio = (tokens: number, of: number) => (of === 0 ? null : tokens / of);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  return {
    ...{ replica: number, requests: count, hitRatio: ratio(sum(hit), sum(inputs)) },
    ...{ ttftMsP50: at(0.5), ttftMsP99: at(0.99), finished },
    hitRatios: inputs.map((tokens, i) => ratio(hit[i], tokens)),
  };
}

/** By replica and interval, the time with a step. */
function busyNsOf(
  { columns, rowCount }: Table,
  intervals: Intervals,
  numbers: readonly number[],
): Map<number, number[]> | undefined {
  const [replica, starts, durations] = ["replica", "startNs", "durationNs"].map((name) => columns.get(name));
  if (!replica || !starts || !durations) return undefined;
  const { startNs, lengthNs, count } = intervals;
  const busy = new Map(numbers.map((number) => [number, new Array<number>(count).fill(0)]));
  const endNs = startNs + count * lengthNs;
  for (let row = 0; row < rowCount; row++) {
    const own = busy.get(replica[row]);
    const to = Math.min(endNs, starts[row] + durations[row]);
    for (let from = Math.max(startNs, starts[row]); own && from < to; ) {
      const i = indexOf(intervals, from);
      const end = i === count - 1 ? to : Math.min(to, startNs + (i + 1) * lengthNs);
      own[i] += end - from;
      // Rounding must not keep the same interval forever.
      from = end > from ? end : to;
    }
  }
  return busy;
}
