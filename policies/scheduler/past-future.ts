import type { SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import type { Random } from "../../core/random.ts";
import { type Estimate, PeakAdmission, peakAdmissionOptions } from "./peak-admission.ts";

/**
 * Predicts output lengths from recent ones: at every admission the length of each output is sampled from the lengths of recent
 * outputs that are longer than the tokens generated so far; if there are none, the prediction is `maxOutputTokens`.
 */
class RecentLengths implements Estimate {
  readonly #random: Random;
  readonly #maxRecent: number;
  /** Ring buffer of lengths in the order in which requests finished; `#oldest` is the first. */
  readonly #recent: number[] = [];
  #oldest = 0;
  /** The same lengths in ascending order. */
  readonly #sorted: number[] = [];

  constructor(random: Random, maxRecent: number) {
    this.#random = random;
    this.#maxRecent = maxRecent;
  }

  finished({ generatedTokens }: SequenceView): void {
    // A cancelled request without output has no output length.
    if (generatedTokens === 0) return;
    if (this.#recent.length < this.#maxRecent) {
      this.#recent.push(generatedTokens);
    } else {
      this.#sorted.splice(this.#above(this.#recent[this.#oldest]) - 1, 1);
      this.#recent[this.#oldest] = generatedTokens;
      this.#oldest = (this.#oldest + 1) % this.#maxRecent;
    }
    this.#sorted.splice(this.#above(generatedTokens), 0, generatedTokens);
  }

  outputTokens({ generatedTokens, request }: SequenceView): number {
    const from = this.#above(generatedTokens);
    const count = this.#sorted.length - from;
    if (count === 0) return request.maxOutputTokens;
    return Math.min(request.maxOutputTokens, this.#sorted[from + this.#random.below(count)]);
  }

  /** Index of the first length above `length`. */
  #above(length: number): number {
    let from = 0;
    let to = this.#sorted.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#sorted[middle] <= length) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

export const pastFuture: SchedulerPlugin = {
  name: "past-future",
  about: "as efficient-router, with output lengths sampled from recent requests",
  source: "Past-Future scheduler (Gong et al., ASPLOS'25), LightLLM",
  options: {
    ...peakAdmissionOptions,
    "history-size": {
      about: "finished requests from whose output lengths predictions are sampled",
      default: 1000,
      min: 1,
    },
  },
  create: ({ rules, options, random }) =>
    new PeakAdmission(new RecentLengths(random, options["history-size"]), rules, options),
};
