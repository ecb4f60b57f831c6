import type { Nanos, Trace } from "../../core/trace/trace.ts";
import { kolmogorovSmirnov, type Spread, ValueCounts } from "./value-counts.ts";

/** Bins per factor of two. */
const binsPerOctave = 64;

/** Times between consecutive arrivals, in logarithmic bins about 1 % wide, so that memory is constant. */
export class ArrivalGaps {
  readonly #bins = new ValueCounts();
  #lastNs: Nanos | undefined;
  #sumNs = 0;
  #mostNs: Nanos = 0;

  add({ arrivalNs, requestCount }: Trace): void {
    for (let r = 0; r < requestCount; r++) {
      const gapNs = arrivalNs[r] - (this.#lastNs ?? arrivalNs[r]);
      if (this.#lastNs !== undefined) this.#bins.add(Math.round(binsPerOctave * Math.log2(1 + gapNs)));
      this.#lastNs = arrivalNs[r];
      this.#sumNs += gapNs;
      this.#mostNs = Math.max(this.#mostNs, gapNs);
    }
  }

  /** In seconds; undefined with fewer than two requests. */
  spread(): Spread | undefined {
    if (this.#bins.total === 0) return undefined;
    const [p50, p90, p99] = this.#bins
      .quantiles([0.5, 0.9, 0.99])
      .map((bin) => Math.min(this.#mostNs, 2 ** (bin / binsPerOctave) - 1) / 1e9);
    return { mean: this.#sumNs / this.#bins.total / 1e9, p50, p90, p99, max: this.#mostNs / 1e9 };
  }

  /** Kolmogorov and Smirnov's distance of two traces' gaps. */
  distance(other: ArrivalGaps): number {
    return kolmogorovSmirnov(this.#bins, other.#bins);
  }
}
