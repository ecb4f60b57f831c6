import type { RemovalCause } from "../../core/log/removal-causes.ts";
import type { AgeUnit, Distribution, Residency, ResidencyDistributions } from "./explanation.ts";
import { Histogram } from "./histogram.ts";

type Name = keyof ResidencyDistributions;
/** In the order of the report. */
export const residencyNames: readonly Name[] = ["ageAtHit", "ageAtEviction", "lifetime", "hitsPerBlock", "ageAtMiss"];

/** Unit of the values of a histogram. */
export const unitOf = (name: Name, ageUnit: AgeUnit) => (name === "hitsPerBlock" ? "hits" : ageUnit);

/** Counts the histograms of residency over all replicas. */
export class ResidencyCounts {
  readonly ageAtHit = new Histogram();
  readonly ageAtEviction = new Histogram();
  readonly lifetime = new Histogram();
  readonly hitsPerBlock = new Histogram();
  readonly ageAtMiss = new Histogram();
  readonly removedBlocks: Record<RemovalCause, number> = { eviction: 0, expiry: 0, operator: 0, request: 0 };
  /** Missed tokens of `ageAtMiss`. */
  readonly missedTokens: Record<RemovalCause, number> = { eviction: 0, expiry: 0, operator: 0, request: 0 };
  cachedBlocks = 0;
  notStoredTokens = 0;

  removed(cause: RemovalCause, age: number, lifetime: number, hits: number): void {
    this.removedBlocks[cause]++;
    if (cause === "eviction") this.ageAtEviction.add(age);
    this.lifetime.add(lifetime);
    this.hitsPerBlock.add(hits);
  }

  cachedAtEnd(hits: number): void {
    this.cachedBlocks++;
    this.hitsPerBlock.add(hits);
  }

  /** Tokens of a counted lookup missed with the reason `evicted`; `cause` is undefined if the block was not stored. */
  missed(cause: RemovalCause | undefined, age: number, tokens: number): void {
    if (cause === undefined) {
      this.notStoredTokens += tokens;
      return;
    }
    this.missedTokens[cause] += tokens;
    this.ageAtMiss.add(age, tokens);
  }

  /** The field `residency` of the report. */
  report(ageUnit: AgeUnit): Residency {
    const distributions = Object.fromEntries(residencyNames.map((name) => [name, distributionOf(this[name])]));
    const { removedBlocks, cachedBlocks, notStoredTokens } = this;
    return { ageUnit, removedBlocks, cachedBlocks, notStoredTokens, ...(distributions as Record<Name, Distribution>) };
  }
}

function distributionOf(histogram: Histogram): Distribution {
  const { count, sum, max } = histogram;
  return {
    count,
    mean: count === 0 ? 0 : sum / count,
    p10: histogram.quantile(0.1),
    p50: histogram.quantile(0.5),
    p90: histogram.quantile(0.9),
    p99: histogram.quantile(0.99),
    max,
    bins: histogram.bins(),
  };
}
