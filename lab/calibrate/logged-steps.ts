import { coefficientsOf, type Fit, fitCost, type Measurement } from "../../sim/cost/fit.ts";
import { Fitted } from "../../sim/cost/fitted.ts";
import { squaredError } from "../fidelity/errors.ts";
import type { RecordedRun } from "../fidelity/recorded-run.ts";
import { recordedSystem, type SimulatedRequests, simulateRequests, timesOf } from "../fidelity/simulate-record.ts";
import { type Measured, type MeasuredKind, stepsFrom } from "./measured-steps.ts";

/** Rounds of simulating and fitting, after which the coefficients hardly change. */
const passes = 8;

/**
 * Fits a cost model to the times of requests' first and last tokens, for runs without recorded steps: the time between two of
 * these is the sum of the steps between them, and a simulation determines which steps these are. The simulation needs step
 * times itself: it starts with the roofline of the data sheets and continues with the fitted coefficients. The fit with the
 * smallest error of latencies is returned.
 *
 * @throws InputError as `fitCost` does
 */
export async function fitLog(
  run: RecordedRun,
  where: string,
  seed: number,
): Promise<{ steps: readonly Measured[]; fit: Fit }> {
  const system = await recordedSystem(run, { cost: "roofline" });
  let simulated = simulateRequests(run, system);
  let best: { steps: readonly Measured[]; fit: Fit; error: number } | undefined;
  for (let pass = 0; pass < passes; pass++) {
    const steps = intervals(run, simulated);
    const fit = fitCost(steps, where, { seed });
    const fitted = new Fitted({ picoseconds: coefficientsOf(fit) });
    simulated = simulateRequests(run, system, () => fitted);
    const error = squaredError(run.times, timesOf(run, simulated));
    if (best === undefined || error < best.error) best = { steps, fit, error };
  }
  return best!;
}

/** For each request, the load and the duration of the steps up to its first token, and of the steps after it. */
function intervals({ times }: RecordedRun, simulated: SimulatedRequests): Measured[] {
  const { steps: table, queuedNs, firstTokenNs, finishedNs } = simulated;
  const steps = stepsFrom(table, 0);
  const stepByStart = new Map(table.startNs.map((startNs, step) => [startNs, step]));
  const firstStepAfter = new Map(table.startNs.map((startNs, step) => [startNs + table.durationNs[step], step + 1]));
  const between = (from: number, to: number, ms: number, kind: MeasuredKind): Measured[] =>
    to > from && ms > 0 ? [{ amounts: sumOf(steps.slice(from, to)), ns: ms * 1e6, kind }] : [];
  return Array.from(queuedNs, (_, row) => {
    const [from, first] = [stepByStart.get(queuedNs[row])!, firstStepAfter.get(firstTokenNs[row])!];
    const firstMs = times.firstTokenMs[row];
    return [
      ...between(from, first, firstMs - times.queuedMs[row], "first token"),
      ...between(first, firstStepAfter.get(finishedNs[row])!, times.finishedMs[row] - firstMs, "later tokens"),
    ];
  }).flat();
}

function sumOf(steps: readonly Measurement[]): Measurement["amounts"] {
  const sum: Record<string, number> = {};
  for (const { amounts } of steps)
    for (const [name, amount] of Object.entries(amounts)) sum[name] = (sum[name] ?? 0) + amount;
  return sum;
}
