import type { Metrics } from "./metrics.ts";
import type { ExperimentRunner } from "./runner.ts";

/** A published measurement, repeated in the simulator or with the real engine. */
export interface Experiment {
  readonly name: string;
  /** The comparison, in one line. */
  readonly about: string;
  /** The publication. */
  readonly source: string;
  /** Set if the experiment can serve the requests of any trace (`--trace`). */
  readonly takesTrace?: true;
  /** Set if the experiment is small enough for the real engine. */
  readonly takesEngine?: true;
  /** Runs every configuration. */
  run(runner: ExperimentRunner): Promise<Findings>;
}

/** The metrics of an experiment, compared with the published ones. */
export interface Findings {
  /** The requests, and the assumptions about everything that is not published. */
  readonly workload: string;
  readonly rows: readonly Row[];
  readonly headlines: readonly Headline[];
  /** Causes of the difference, and of deviations from the publication, with the numbers that show them. */
  readonly explanations: readonly string[];
}

/** One configuration: the published metrics, if any, and ours. */
export interface Row {
  readonly configuration: string;
  readonly published?: Metrics;
  readonly simulated: Metrics;
}

/** A main result of the source as a ratio, which is comparable although hardware and engine differ. */
export interface Headline {
  /** The two quantities, such as "requests/s, on ÷ off". */
  readonly ratio: string;
  /** A number or a range; absent if the source gives none. */
  readonly published?: number | readonly [least: number, most: number];
  readonly simulated: number;
}

/**
 * True if a ratio has the published shape: it is on the same side of 1, and the gain as a factor is between the square root and
 * the square of the published one, or above it if only a lower bound is published. Undefined if no ratio is published.
 */
export function hasShape({ published, simulated }: Headline): boolean | undefined {
  if (published === undefined) return undefined;
  const [least, most] = typeof published === "number" ? [published, published] : published;
  const isGain = least >= 1;
  const gain = Math.log(isGain ? simulated : 1 / simulated);
  const [from, to] = isGain ? [Math.log(least), Math.log(most)] : [-Math.log(most), -Math.log(least)];
  // A lower bound is not relaxed.
  return gain >= (to === Number.POSITIVE_INFINITY ? from : from / 2) && gain <= to * 2;
}
