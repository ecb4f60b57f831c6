/** Quantiles are interpolated linearly between ranks, as in numpy. */
export interface Distribution {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** The distribution of some values, which it sorts; null if there are none. */
export function distribution(values: Float64Array): Distribution | null {
  if (values.length === 0) return null;
  values.sort();
  let sum = 0;
  for (const value of values) sum += value;
  const [p50, p90, p95, p99] = [0.5, 0.9, 0.95, 0.99].map((share) => quantile(values, share));
  return { mean: sum / values.length, p50, p90, p95, p99, max: values[values.length - 1] };
}

/** Quantile `share` of sorted values, interpolated between ranks; the largest ones may be infinite. */
export function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1);
  const below = Math.floor(at);
  const above = Math.min(below + 1, sorted.length - 1);
  // The difference of infinite values is not a number.
  if (at === below || sorted[above] === Number.POSITIVE_INFINITY) return sorted[at === below ? below : above];
  return sorted[below] + (sorted[above] - sorted[below]) * (at - below);
}

/** The middle value, or the mean of the two middle ones; NaN if there are none. */
export const median = (values: readonly number[]): number => quantile(Float64Array.from(values).sort(), 0.5);
