import { grown } from "../../core/grown.ts";
import type { Nanos } from "../../core/trace/trace.ts";

/** Most intervals that the time is divided into; a power of two. */
const mostBins = 512;
/** Windows of 1, 2, 4 … `mostBins` bins. */
const windowCount = Math.log2(mostBins) + 1;
/** The shortest bin is 2^−10 s, so that every bin is a power of two in seconds. */
const shortestNs = 1e9 / 1024;

/** Counts per interval of time, and the working set at the end of each interval. */
export interface TimelineCounts {
  /** Length of an interval; a power of two. */
  readonly binS: number;
  readonly requests: Float64Array;
  readonly inputTokens: Float64Array;
  /**
   * By window, the different keys that were used in the window that ends with each interval. The last window is the whole
   * trace so far.
   */
  readonly workingSets: readonly { readonly windowS: number; readonly keys: Float64Array }[];
}

/**
 * Counts of requests, tokens and different keys over time, in at most 512 intervals. When time exceeds them, pairs of
 * intervals are merged, so that memory depends on the number of different keys only.
 */
export class Timeline {
  #binNs = shortestNs;
  #firstNs: Nanos | undefined;
  #bin = 0;
  readonly #requests = new Float64Array(mostBins);
  readonly #tokens = new Float64Array(mostBins);
  /** Keys whose last use is in each bin. */
  readonly #live = new Float64Array(mostBins);
  /** By key, the bin of its last use; −1 = none. */
  #lastBin: Int16Array = new Int16Array(1024).fill(-1);
  /** For each bin and window, the keys used in the window that ends with the bin. */
  readonly #sets = new Float64Array(mostBins * windowCount);

  /** A request arrives; arrivals never decrease. */
  addRequest(atNs: Nanos, inputTokens: number): void {
    this.#firstNs ??= atNs;
    const sinceNs = atNs - this.#firstNs;
    while (sinceNs >= mostBins * this.#binNs) {
      this.#closeUpTo(mostBins);
      this.#merge();
    }
    this.#closeUpTo(Math.floor(sinceNs / this.#binNs));
    this.#requests[this.#bin]++;
    this.#tokens[this.#bin] += inputTokens;
  }

  /** The request that arrived last uses this key. */
  addKey(key: number): void {
    if (key >= this.#lastBin.length) {
      const known = this.#lastBin.length;
      this.#lastBin = grown(this.#lastBin, Math.max(key + 1, 2 * known)).fill(-1, known);
    }
    const last = this.#lastBin[key];
    if (last === this.#bin) return;
    if (last >= 0) this.#live[last]--;
    this.#live[this.#bin]++;
    this.#lastBin[key] = this.#bin;
  }

  counts(): TimelineCounts {
    const length = this.#bin + 1;
    this.#sum(this.#bin);
    const binS = this.#binNs / 1e9;
    const ofWindow = (window: number) =>
      Float64Array.from({ length }, (_, bin) => this.#sets[bin * windowCount + window]);
    return {
      binS,
      requests: this.#requests.slice(0, length),
      inputTokens: this.#tokens.slice(0, length),
      workingSets: Array.from({ length: windowCount }, (_, window) => ({
        windowS: 2 ** window * binS,
        keys: ofWindow(window),
      })),
    };
  }

  #closeUpTo(bin: number): void {
    for (; this.#bin < bin; this.#bin++) this.#sum(this.#bin);
  }

  /** The working sets at the end of a bin, from the bins of the keys' last uses. */
  #sum(bin: number): void {
    let keys = 0;
    let from = bin + 1;
    for (let window = 0; window < windowCount; window++) {
      const begin = Math.max(0, bin + 1 - 2 ** window);
      while (from > begin) keys += this.#live[--from];
      this.#sets[bin * windowCount + window] = keys;
    }
  }

  /** Bins 2b and 2b + 1 become bin b, and the window of two bins becomes that of one. All bins are complete. */
  #merge(): void {
    this.#binNs *= 2;
    for (const column of [this.#requests, this.#tokens, this.#live]) {
      for (let bin = 0; bin < mostBins; bin++)
        column[bin] = bin < mostBins / 2 ? column[2 * bin] + column[2 * bin + 1] : 0;
    }
    for (let key = 0; key < this.#lastBin.length; key++) if (this.#lastBin[key] >= 0) this.#lastBin[key] >>= 1;
    for (let bin = 0; bin < mostBins / 2; bin++)
      for (let window = 0; window < windowCount; window++)
        this.#sets[bin * windowCount + window] =
          this.#sets[(2 * bin + 1) * windowCount + Math.min(window + 1, windowCount - 1)];
    this.#bin = mostBins / 2;
  }
}
