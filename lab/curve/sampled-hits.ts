import { hitsOf, lookupsOf, type RequestSize, type SummedMetric } from "../output/request-hits.ts";
import type { Sample } from "./sample.ts";

/** A request of a sample and its group. */
export interface SampledRequest extends RequestSize {
  readonly group: number;
}

/**
 * The error of a hit ratio that is estimated from a sample of groups: the standard error of a ratio of sums over groups (Cochran 1977,
 * section 6.4), with corrections for a finite number of groups and for their sizes, times the error of scaling the size of the cache
 * (docs/curve.md).
 */
export class SampledHits {
  readonly #metric: SummedMetric;
  readonly #requests: readonly SampledRequest[];
  readonly #groups: number;
  /** The variance is this times that of the residuals of the chosen groups. */
  readonly #correction: number;
  // By group: sums of the numerators and denominators of its requests.
  readonly #hits: Float64Array;
  readonly #lookups: Float64Array;

  /** `requests`: all by number, of which the first `warmup` are not measured. */
  constructor(
    metric: SummedMetric,
    requests: readonly SampledRequest[],
    warmup: number,
    { chosenGroups: groups, groupCount, squaredSize }: Pick<Sample, "chosenGroups" | "groupCount" | "squaredSize">,
  ) {
    this.#metric = metric;
    this.#requests = requests;
    this.#groups = groups;
    this.#correction = ((1 - groups / groupCount) * squaredSize * groups) / (groups - 1);
    this.#hits = new Float64Array(groups);
    this.#lookups = new Float64Array(groups);
    for (const request of requests.slice(warmup)) this.#lookups[request.group] += lookupsOf(metric, request);
  }

  add(request: number, hitBlocks: number, hitTokens: number): void {
    const one = this.#requests[request];
    this.#hits[one.group] += hitsOf(this.#metric, one, hitBlocks, hitTokens);
  }

  /** The interval of 95 % about the estimate; `slope`: change of the hit ratio by the logarithm of the cache's size. */
  interval(slope: number): { readonly low: number; readonly high: number } {
    const [hits, lookups] = [this.#hits, this.#lookups].map((column) => column.reduce((sum, value) => sum + value, 0));
    if (this.#groups < 2 || lookups === 0) return { low: 0, high: 1 };
    const ratio = hits / lookups;
    let squares = 0;
    for (let g = 0; g < this.#groups; g++) squares += (this.#hits[g] - ratio * this.#lookups[g]) ** 2;
    const standardError = Math.sqrt(this.#correction * squares) / lookups;
    const error = standardErrors(this.#groups - 1) * standardError * scaling(ratio, slope);
    return { low: Math.max(0, ratio - error), high: Math.min(1, ratio + error) };
  }
}

/**
 * How much larger the error is because the size of the cache is scaled by prompt tokens: groups with more hits than usual leave more
 * room to the others. docs/curve.md derives it.
 */
function scaling(ratio: number, slope: number): number {
  const rise = Math.max(0, slope);
  return rise === 0 ? 1 : 1 + rise / (1 - ratio + rise);
}

/** The 97.5th percentile of Student's t distribution with `freedom` ≥ 1 degrees (Abramowitz and Stegun 1964, 26.7.5). */
function standardErrors(freedom: number): number {
  const z = 1.959964;
  const terms = [
    z,
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92_160,
  ];
  return terms.reduce((sum, term, power) => sum + term / freedom ** power, 0);
}
