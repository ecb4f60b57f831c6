import { hitsOf, lookupsOf, type RequestSize, type SummedMetric } from "../output/request-hits.ts";

/** A request of a sample and its group. */
export interface SampledRequest extends RequestSize {
  readonly group: number;
}

/** The interval has this many standard errors to each side: 95 % of a normal distribution. */
const standardErrors = 1.96;

/**
 * The error of a hit ratio that is estimated from a sample of groups: the standard error of a ratio of sums over groups (Cochran 1977, section 6.4),
 * with the correction for a finite number of groups. It does not contain the error of scaling the size of the cache.
 */
export class SampledHits {
  readonly #metric: SummedMetric;
  readonly #requests: readonly SampledRequest[];
  readonly #groups: number;
  readonly #groupShare: number;
  // By group: sums of the numerators and denominators of its requests.
  readonly #hits: Float64Array;
  readonly #lookups: Float64Array;

  /** `requests`: all by number, of which the first `warmup` are not measured; `groupShare`: chosen groups ÷ all. */
  constructor(
    metric: SummedMetric,
    requests: readonly SampledRequest[],
    warmup: number,
    groups: number,
    groupShare: number,
  ) {
    this.#metric = metric;
    this.#requests = requests;
    this.#groups = groups;
    this.#groupShare = groupShare;
    this.#hits = new Float64Array(groups);
    this.#lookups = new Float64Array(groups);
    for (const request of requests.slice(warmup)) this.#lookups[request.group] += lookupsOf(metric, request);
  }

  add(request: number, hitBlocks: number, hitTokens: number): void {
    const one = this.#requests[request];
    this.#hits[one.group] += hitsOf(this.#metric, one, hitBlocks, hitTokens);
  }

  /** The interval about the estimate. */
  interval(): { readonly low: number; readonly high: number } {
    const [hits, lookups] = [this.#hits, this.#lookups].map((column) => column.reduce((sum, value) => sum + value, 0));
    if (this.#groups < 2 || lookups === 0) return { low: 0, high: 1 };
    const ratio = hits / lookups;
    let squares = 0;
    for (let g = 0; g < this.#groups; g++) squares += (this.#hits[g] - ratio * this.#lookups[g]) ** 2;
    const variance = ((1 - this.#groupShare) * this.#groups * squares) / ((this.#groups - 1) * lookups ** 2);
    const error = standardErrors * Math.sqrt(variance);
    return { low: Math.max(0, ratio - error), high: Math.min(1, ratio + error) };
  }
}
