import { InputError } from "../../core/errors.ts";
import { seededRandom } from "../../core/random.ts";
import type { StepLoad, StepLoadExtension } from "../../core/serving/step-load.ts";
import { type CoefficientName, type Coefficients, coefficientNames } from "./fitted.ts";
import { nonNegative } from "./least-squares.ts";

/** One measured step, or several that were measured together: their quantities and their duration. */
export interface Measurement {
  readonly amounts: Readonly<Partial<Record<CoefficientName, number>>>;
  readonly ns: number;
}

/** The quantities of one step. */
export const amountsOf = (load: Readonly<Partial<StepLoad>>): Measurement["amounts"] => ({
  ...load,
  step: 1,
  batchStep: (load.prefillTokens ?? 0) + (load.decodeTokens ?? 0) > 1 ? 1 : 0,
  prefillStep: (load.prefillTokens ?? 0) > 0 ? 1 : 0,
});

export interface FittedCoefficient {
  readonly name: CoefficientName;
  readonly picoseconds: number;
  /** Limits of the 95 % bootstrap interval. */
  readonly lowPs: number;
  readonly highPs: number;
}

export interface Fit {
  /** The identifiable coefficients, in the order of a cost file; all others are 0. */
  readonly coefficients: readonly FittedCoefficient[];
  /** Predicted duration of each measurement. */
  readonly fittedNs: Float64Array;
}

/** The fitted quantities, which are linearly independent. (`sequences` is the sum of two of them.) */
const always = ["step", "batchStep", "prefillSequences", "logits", "prefillTokens", "decodeTokens"] as const;
const transferred = ["copiedBlocks", "swappedTokens"] as const;
const inTotals = ["prefillStep", "prefillContextTokens", "decodeContextTokens", "prefillPairs"] as const;
/** The loads of `calls`, where the engine's division of steps is known, replace the totals. */
function fittedNames(measurements: readonly Measurement[], calls: StepLoadExtension | undefined): CoefficientName[] {
  const leastOf = new Map<CoefficientName, number>(calls?.loads.map(({ name, least }) => [name, least]));
  const has = (name: CoefficientName) =>
    measurements.some(({ amounts }) => (amounts[name] ?? 0) >= (leastOf.get(name) ?? 1));
  const names: readonly CoefficientName[] = [...always, ...(calls ? leastOf.keys() : inTotals), ...transferred];
  return names.filter(has);
}

/** Fewest measurements per coefficient. */
const leastEach = 3;
/** Residuals are bounded at this multiple of the typical one, so that pauses of the machine do not affect the fit. */
const outlier = 3;
const passes = 8;
/** Blocks of the bootstrap: successive measurements are drawn together, because a slow phase of the machine spans many of them. */
const bootstrapBlocks = 40;
const samples = 400;

/**
 * Fits non-negative coefficients to measured durations: iteratively reweighted least squares of relative errors with bounded
 * residuals (Huber, 1964), scaled so that the total predicted duration is the measured one, pauses excluded. Intervals are from a
 * block bootstrap over successive measurements.
 *
 * @throws InputError, beginning with `where`, if there are too few steps to identify the coefficients, or a duration is not above 0
 */
export function fitCost(
  measurements: readonly Measurement[],
  where: string,
  { seed = 1, calls }: { readonly seed?: number; readonly calls?: StepLoadExtension | undefined } = {},
): Fit {
  check(measurements, where);
  const names = fittedNames(measurements, calls);
  const rows = measurements.map(({ amounts }) => Float64Array.from(names, (name) => amounts[name] ?? 0));
  const least = leastEach * Math.max(1, names.length);
  if (measurements.length < least)
    throw new InputError(
      `${where}: ${measurements.length} steps are too few for ${names.length} coefficients, expected ${least} at least`,
    );
  if (rows.every((row) => row.every((value, i) => value === rows[0][i])))
    throw new InputError(`${where}: all ${rows.length} steps are equal, so that no coefficient can be identified`);
  const observed = Float64Array.from(measurements, ({ ns }) => ns);
  let weights: Float64Array = observed.map((ns) => 1 / ns ** 2);
  let found: Float64Array = new Float64Array(names.length);
  for (let pass = 0; pass < passes; pass++) {
    found = nonNegative(...equations(rows, observed, weights));
    weights = weightsOf(observed, predicted(rows, found));
  }
  const level = levelOf(observed, predicted(rows, found));
  found = found.map((ns) => ns * level);
  const limits = intervals(rows, observed, weights, seed);
  return {
    coefficients: names.flatMap((name, i) => {
      const picoseconds = Math.round(found[i] * 1000);
      const [lowPs, highPs] = limits[i].map((ns) => Math.round(ns * level * 1000));
      return picoseconds === 0 && highPs === 0 ? [] : [{ name, picoseconds, lowPs, highPs }];
    }),
    fittedNs: predicted(rows, found),
  };
}

/** Predicted duration of a step, in ns. */
export const fittedNsOf = ({ coefficients }: Fit, amounts: Measurement["amounts"]): number =>
  coefficients.reduce((ps, { name, picoseconds }) => ps + picoseconds * (amounts[name] ?? 0), 0) / 1000;

/** The coefficients in the form of a cost file. */
export const coefficientsOf = ({ coefficients }: Fit): Partial<Coefficients> =>
  Object.fromEntries(coefficients.map(({ name, picoseconds }) => [name, picoseconds]));

function check(measurements: readonly Measurement[], where: string): void {
  measurements.forEach(({ amounts, ns }, i) => {
    if (!(ns > 0 && Number.isFinite(ns)))
      throw new InputError(`${where}: step ${i} takes ${ns} ns, expected more than 0`);
    for (const name of coefficientNames) {
      const amount = amounts[name] ?? 0;
      if (!(amount >= 0 && Number.isFinite(amount)))
        throw new InputError(`${where}: ${name} of step ${i} is ${amount}, expected a number from 0`);
    }
  });
}

const predicted = (rows: readonly Float64Array[], coefficients: Float64Array): Float64Array =>
  Float64Array.from(rows, (row) => row.reduce((sum, value, i) => sum + value * coefficients[i], 0));

function weightsOf(observed: Float64Array, fitted: Float64Array): Float64Array {
  const relative = observed.map((ns, i) => ns / fitted[i] - 1);
  const usual = relative.map(Math.abs).sort()[relative.length >> 1] / 0.6745;
  return relative.map((error, i) => Math.min(1, (outlier * usual) / Math.abs(error) || 1) / fitted[i] ** 2);
}

/** A step that takes this multiple of its prediction contains a pause of the machine. */
const pause = 2;

/** Measured ÷ predicted duration of all steps. Bounded residuals are mostly those of slow steps, which also delay requests. */
function levelOf(observed: Float64Array, fitted: Float64Array): number {
  const usual = observed.map((ns, i) => (ns > pause * fitted[i] ? 0 : 1));
  const total = (of: Float64Array) => of.reduce((sum, ns, i) => sum + usual[i] * ns, 0);
  return total(observed) / total(fitted);
}

type Equations = [products: Float64Array[], targets: Float64Array];

/** The normal equations of rows [from, to). */
function equations(
  rows: readonly Float64Array[],
  observed: Float64Array,
  weights: Float64Array,
  from = 0,
  to = rows.length,
): Equations {
  const count = rows[0].length;
  const products = Array.from({ length: count }, () => new Float64Array(count));
  const targets = new Float64Array(count);
  for (let at = from; at < to; at++)
    for (let i = 0; i < count; i++) {
      const weighted = rows[at][i] * weights[at];
      targets[i] += weighted * observed[at];
      for (let j = 0; j < count; j++) products[i][j] += weighted * rows[at][j];
    }
  return [products, targets];
}

/** The 95 % bootstrap interval of each coefficient. */
function intervals(rows: readonly Float64Array[], observed: Float64Array, weights: Float64Array, seed: number) {
  const count = Math.min(bootstrapBlocks, rows.length);
  const bound = (i: number) => Math.round((i * rows.length) / count);
  const parts = Array.from({ length: count }, (_, i) => equations(rows, observed, weights, bound(i), bound(i + 1)));
  const random = seededRandom(seed);
  const drawn = Array.from({ length: samples }, () => {
    const chosen = Array.from({ length: count }, () => parts[random.below(count)]);
    return nonNegative(
      parts[0][0].map((row, i) => row.map((_, j) => chosen.reduce((sum, [products]) => sum + products[i][j], 0))),
      parts[0][1].map((_, i) => chosen.reduce((sum, [, targets]) => sum + targets[i], 0)),
    );
  });
  return Array.from(rows[0], (_, i) => {
    const values = Float64Array.from(drawn, (sample) => sample[i]).sort();
    return [values[Math.floor(0.025 * samples)], values[Math.ceil(0.975 * samples) - 1]] as const;
  });
}
