import type { Metrics } from "./metrics.ts";
import type { ExperimentRunner } from "./runner.ts";

/** A published measurement, done again in the simulator or with the real engine. */
export interface Experiment {
  readonly name: string;
  /** One line: what is compared. */
  readonly about: string;
  /** Who measured it, and where that is published. */
  readonly source: string;
  /** Any requests will do, so that `--trace` may give others. */
  readonly takesTrace?: true;
  /** Small enough for the real engine. */
  readonly takesEngine?: true;
  run(laboratory: ExperimentRunner): Promise<Findings>;
}

export interface Findings {
  /** What was sent, and what is assumed where the source does not say. */
  readonly workload: string;
  readonly rows: readonly Row[];
  readonly headlines: readonly Headline[];
  /** In words and with the numbers that show it: what makes the difference, and why ours deviates where it does. */
  readonly explanations: readonly string[];
}

/** One configuration: what was measured of it, if anything, and what the simulator gives. */
export interface Row {
  readonly configuration: string;
  readonly published?: Metrics;
  readonly simulated: Metrics;
}

/** What the source is cited for, as a ratio: that is what can be compared where hardware and engine differ. */
export interface Headline {
  /** What is divided by what. */
  readonly ratio: string;
  /** A figure, or the least and the most; absent where the source gives none. */
  readonly published?: number | readonly [least: number, most: number];
  readonly simulated: number;
}

/**
 * Whether a ratio has the published shape: the same side of 1, and of the published gain (as a factor) between its square
 * root and its square; more than the published one, where only "more than" is published. Undefined where nothing is.
 */
export function hasShape({ published, simulated }: Headline): boolean | undefined {
  if (published === undefined) return undefined;
  const [least, most] = typeof published === "number" ? [published, published] : published;
  const isGain = least >= 1;
  const gain = Math.log(isGain ? simulated : 1 / simulated);
  const [from, to] = isGain ? [Math.log(least), Math.log(most)] : [-Math.log(most), -Math.log(least)];
  // Of what is published as "more than" nothing is known but that.
  return gain >= (to === Number.POSITIVE_INFINITY ? from : from / 2) && gain <= to * 2;
}
