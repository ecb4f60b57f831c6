import { InputError } from "../../core/errors.ts";
import type { StepLoad } from "../../core/serving/step-load.ts";
import type { CostModel } from "../../sim/cost/cost-model.ts";
import { type Control, counting, yieldToEvents } from "../control.ts";
import { squaredError } from "./errors.ts";
import type { RecordedRun } from "./recorded-run.ts";
import { type RecordedSystem, simulateRequests, timesOf } from "./simulate-record.ts";

/** A step takes a constant time and a time per prompt token, whatever the model and the GPU are. */
export interface NullCoefficients {
  readonly stepUs: number;
  readonly promptTokenUs: number;
}

export function nullModel({ stepUs, promptTokenUs }: NullCoefficients): CostModel {
  return {
    name: "null",
    stepNs: ({ prefillTokens }: Readonly<StepLoad>) =>
      Math.max(1, Math.round(1e3 * (stepUs + promptTokenUs * prefillTokens))),
  };
}

/** Limits of the search, in microseconds. */
const limits = { stepUs: [10, 1_000_000], promptTokenUs: [0.01, 10_000] } as const;
const names = ["stepUs", "promptTokenUs"] as const;
/** The search begins in the middle, on a logarithmic scale, and ends when a stride changes a coefficient by less than 0.5 %. */
const leastStride = Math.log(1.005);
/** At most this many simulations. */
const mostTrials = 400;

/**
 * The coefficients with the least error of the times of first and last tokens (root mean square) in a recorded run, by pattern
 * search: to a better neighbour, or to half the stride where there is none.
 *
 * @throws InputError if a coefficient ends at a limit; Interrupted
 */
export async function fitNullModel(
  run: RecordedRun,
  system: RecordedSystem,
  control: Control = {},
): Promise<NullCoefficients> {
  const advance = counting(control, "fitting", mostTrials);
  let trials = 0;
  const errorAt = async (point: readonly number[]) => {
    trials++;
    advance(1);
    await yieldToEvents(control.signal);
    const simulated = simulateRequests(run, system, () => nullModel(coefficients(point)));
    return squaredError(run.times, timesOf(run, simulated));
  };
  const bounds = names.map((name) => limits[name].map(Math.log));
  let best = bounds.map(([low, high]) => (low + high) / 2);
  let error = await errorAt(best);
  for (let stride = 2; stride > leastStride && trials < mostTrials; ) {
    const [from, before] = [best, error];
    for (const [dx, dy] of neighbours) {
      const point = [from[0] + dx * stride, from[1] + dy * stride].map((value, i) =>
        Math.min(bounds[i][1], Math.max(bounds[i][0], value)),
      );
      const found = await errorAt(point);
      if (found < error) [best, error] = [point, found];
    }
    if (error === before) stride /= 2;
  }
  names.forEach((name, i) => {
    if (bounds[i].includes(best[i]))
      throw new InputError(
        `the fit of the null model to ${run.folder} ends at a limit: ${name} is ${Math.exp(best[i])}, searched from ${limits[name].join(" to ")}`,
      );
  });
  return coefficients(best);
}

const neighbours = [-1, 0, 1].flatMap((x) => [-1, 0, 1].map((y) => [x, y] as const)).filter(([x, y]) => x || y);

const coefficients = ([stepUs, promptTokenUs]: readonly number[]): NullCoefficients => ({
  stepUs: Math.exp(stepUs),
  promptTokenUs: Math.exp(promptTokenUs),
});
