import { grown } from "../../core/grown.ts";

/** Percentiles are by nearest rank: the smallest value that at least that share of all values do not exceed. */
export interface Spread {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

/** Values below this are counted in an array. */
const directValues = 1 << 22;

/** How often each integer from 0 occurs. Memory depends on the number of different values. */
export class ValueCounts {
  total = 0;
  #sum = 0;
  #direct: Float64Array = new Float64Array(1024);
  readonly #large = new Map<number, number>();

  add(value: number, times = 1): void {
    this.total += times;
    this.#sum += value * times;
    if (value >= directValues) this.#large.set(value, (this.#large.get(value) ?? 0) + times);
    else {
      if (value >= this.#direct.length)
        this.#direct = grown(this.#direct, Math.min(directValues, Math.max(value + 1, 2 * this.#direct.length)));
      this.#direct[value] += times;
    }
  }

  get sum(): number {
    return this.#sum;
  }

  /** The values that occur, in ascending order, and their counts. */
  entries(): [value: number, count: number][] {
    const found: [number, number][] = [];
    this.#direct.forEach((count, value) => {
      if (count > 0) found.push([value, count]);
    });
    return [...found, ...[...this.#large].sort(([a], [b]) => a - b)];
  }

  /** For each of the ascending shares, the smallest value that at least that share of all values do not exceed. */
  quantiles(shares: readonly number[]): number[] {
    const entries = this.entries();
    let at = 0;
    let seen = entries[0]?.[1] ?? 0;
    return shares.map((share) => {
      while (seen < Math.ceil(share * this.total) && at < entries.length - 1) seen += entries[++at][1];
      return entries[at]?.[0] ?? 0;
    });
  }

  /** Undefined without values. */
  spread(): Spread | undefined {
    if (this.total === 0) return undefined;
    const [p50, p90, p99, max] = this.quantiles([0.5, 0.9, 0.99, 1]);
    return { mean: this.#sum / this.total, p50, p90, p99, max };
  }
}

/** The largest difference of two distributions' cumulative shares: Kolmogorov and Smirnov's distance, from 0 to 1. */
export function kolmogorovSmirnov(a: ValueCounts, b: ValueCounts): number {
  const [left, right] = [a.entries(), b.entries()];
  let [i, j, below, under, most] = [0, 0, 0, 0, 0];
  while (i < left.length || j < right.length) {
    const value = Math.min(left[i]?.[0] ?? Number.POSITIVE_INFINITY, right[j]?.[0] ?? Number.POSITIVE_INFINITY);
    if (left[i]?.[0] === value) below += left[i++][1] / a.total;
    if (right[j]?.[0] === value) under += right[j++][1] / b.total;
    most = Math.max(most, Math.abs(below - under));
  }
  return most;
}
