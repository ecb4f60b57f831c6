import { seededRandom } from "../../core/random.ts";
import { quantile } from "../../core/serving/distribution.ts";

/** A value and its 95 % confidence interval. */
export interface Interval {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

const samples = 1000;
const confidence = 0.95;
/** With fewer groups the standard error is too uncertain. */
const leastGroups = 10;

/**
 * Confidence intervals of ratios of sums over groups of sessions: bootstrap-t (Efron and Tibshirani: An Introduction to the
 * Bootstrap, 1993, chapter 12). A sample draws as many groups as there are, with replacement, the same for every ratio. Its error is
 * counted in standard errors of the sample, because groups differ in size.
 */
export class Bootstrap {
  readonly #groups: number;
  /** By sample and group: how often the sample draws the group. */
  readonly #draws: Uint8Array;

  constructor(groups: number, seed: number) {
    this.#groups = groups;
    this.#draws = new Uint8Array(samples * groups);
    const random = seededRandom(seed);
    for (let from = 0; from < this.#draws.length; from += groups)
      for (let g = 0; g < groups; g++) this.#draws[from + random.below(groups)]++;
  }

  /** Of the sum of `parts` ÷ the sum of `wholes`, both by group. Undefined if the groups are too few for an interval. */
  ratio(parts: Float64Array, wholes: Float64Array): Interval | undefined {
    if (this.#groups < leastGroups) return undefined;
    const once = new Uint8Array(this.#groups).fill(1);
    const { ratio, error } = estimate(parts, wholes, once, 0);
    if (error === 0) return { value: ratio, low: ratio, high: ratio };
    const errors = new Float64Array(samples);
    for (let s = 0; s < samples; s++) {
      const sample = estimate(parts, wholes, this.#draws, s * this.#groups);
      // A sample of equal groups has no standard error: its error is larger than any other, and finite.
      errors[s] = (sample.ratio - ratio) / Math.max(sample.error, Number.EPSILON);
    }
    errors.sort();
    const tail = (1 - confidence) / 2;
    // Hit ratios and their differences are from −1 to 1.
    return {
      value: ratio,
      low: Math.max(-1, ratio - error * quantile(errors, 1 - tail)),
      high: Math.min(1, ratio - error * quantile(errors, tail)),
    };
  }
}

/** Ratio of the sums and its standard error by linearization, for groups drawn `draws[from + g]` times. */
function estimate(parts: Float64Array, wholes: Float64Array, draws: Uint8Array, from: number) {
  const groups = parts.length;
  let [part, whole, partSquares, products, wholeSquares] = [0, 0, 0, 0, 0];
  for (let g = 0; g < groups; g++) {
    const times = draws[from + g];
    if (times === 0) continue;
    const [a, n] = [parts[g], wholes[g]];
    part += times * a;
    whole += times * n;
    partSquares += times * a * a;
    products += times * a * n;
    wholeSquares += times * n * n;
  }
  if (whole === 0) return { ratio: 0, error: 0 };
  const ratio = part / whole;
  const squares = Math.max(0, partSquares - 2 * ratio * products + ratio * ratio * wholeSquares);
  return { ratio, error: Math.sqrt((squares * groups) / (groups - 1)) / whole };
}
