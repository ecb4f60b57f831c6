// A recorded engine run and its simulation, as docs/fidelity.md and its test compare them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { distribution } from "../core/serving/distribution.ts";
import {
  type RecordedRun,
  type RequestTimes,
  rooflineOf,
  simulateRequests,
  timesOf,
} from "../lab/calibrate/recorded-run.ts";
import type { Efficiency } from "../sim/cost/roofline.ts";

/** The errors of another simulator for the whole run, by metric: simulated ÷ recorded − 1. */
export function otherSimulator(folder: string): ReadonlyMap<string, number> {
  // Lines such as "TTFT Median  9442.7  8633.9  -8.6%", under the names used here.
  const summary = readFileSync(join(folder, "summary.txt"), "utf8");
  const lines = summary.matchAll(/^(TTFT|TPOT|Latency) (Mean|Median|P\d+) .* ([-+][\d.]+)%$/gm);
  return new Map(
    Array.from(lines, ([, kind, figure, percent]) => [
      `${kind} ${figure}`.toLowerCase().replace("median", "p50"),
      Number(percent) / 100,
    ]),
  );
}

/** Simulates the requests of a recorded run. */
export const simulateRecorded = (run: RecordedRun, efficiency?: Partial<Efficiency>): RequestTimes =>
  timesOf(run, simulateRequests(run, rooflineOf(run, efficiency)));

/** A compared metric: the mean or a quantile of a latency. */
export interface Comparison {
  readonly name: string;
  readonly recordedMs: number;
  readonly simulatedMs: number;
  /** Simulated ÷ recorded − 1. */
  readonly difference: number;
}

/** Metrics of requests [from, to). */
export function compare(recorded: RequestTimes, simulated: RequestTimes, from: number, to: number): Comparison[] {
  return (["ttftMs", "tpotMs", "latencyMs"] as const).flatMap((kind) => {
    const [a, b] = [recorded, simulated].map((times) => distribution(times[kind].slice(from, to))!);
    return (["mean", "p50", "p90", "p95", "p99"] as const).map((figure) => ({
      name: `${kind.slice(0, -2)} ${figure}`,
      recordedMs: a[figure],
      simulatedMs: b[figure],
      difference: b[figure] / a[figure] - 1,
    }));
  });
}
