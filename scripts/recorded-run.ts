// A recorded run of an engine beside the simulation of it: what docs/fidelity.md and its test compare.
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

/** What another simulator found of the whole run, by figure: simulated ÷ recorded − 1. */
export function otherSimulator(folder: string): ReadonlyMap<string, number> {
  // Lines such as "TTFT Median  9442.7  8633.9  -8.6%", by our names for them.
  const summary = readFileSync(join(folder, "summary.txt"), "utf8");
  const lines = summary.matchAll(/^(TTFT|TPOT|Latency) (Mean|Median|P\d+) .* ([-+][\d.]+)%$/gm);
  return new Map(
    Array.from(lines, ([, kind, figure, percent]) => [
      `${kind} ${figure}`.toLowerCase().replace("median", "p50"),
      Number(percent) / 100,
    ]),
  );
}

/** The same requests on the simulated engine. */
export const simulateRecorded = (run: RecordedRun, efficiency?: Partial<Efficiency>): RequestTimes =>
  timesOf(run, simulateRequests(run, rooflineOf(run, efficiency)));

/** What is compared, by what it is called: of each kind of time its mean and some quantiles. */
export interface Comparison {
  readonly name: string;
  readonly recordedMs: number;
  readonly simulatedMs: number;
  /** Simulated ÷ recorded − 1. */
  readonly difference: number;
}

/** Figures of requests [from, to). */
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
