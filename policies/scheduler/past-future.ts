import type { SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import type { Random } from "../../core/random.ts";
import { type Estimate, PeakAdmission, peakAdmissionOptions } from "./peak-admission.ts";

/**
 * Predicts output lengths from the past: at every admission each request's length is drawn from the lengths of recent
 * outputs that are longer than its own so far; if there is none, it is `maxOutputTokens`.
 */
class RecentLengths implements Estimate {
  readonly #random: Random;
  readonly #most: number;
  /** In the order of their ends, from `#oldest` round. */
  readonly #recent: number[] = [];
  #oldest = 0;
  /** The same in ascending order. */
  readonly #sorted: number[] = [];

  constructor(random: Random, most: number) {
    this.#random = random;
    this.#most = most;
  }

  finished({ generatedTokens }: SequenceView): void {
    if (this.#recent.length < this.#most) {
      this.#recent.push(generatedTokens);
    } else {
      this.#sorted.splice(this.#above(this.#recent[this.#oldest]) - 1, 1);
      this.#recent[this.#oldest] = generatedTokens;
      this.#oldest = (this.#oldest + 1) % this.#most;
    }
    this.#sorted.splice(this.#above(generatedTokens), 0, generatedTokens);
  }

  outputTokens({ generatedTokens, request }: SequenceView): number {
    const from = this.#above(generatedTokens);
    const count = this.#sorted.length - from;
    if (count === 0) return request.maxOutputTokens;
    return Math.min(request.maxOutputTokens, this.#sorted[from + this.#random.below(count)]);
  }

  /** The place of the first that is longer. */
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
  about: "as efficient-router, with answers as long as recent ones were, drawn by chance",
  source: "Past-Future scheduler (Gong et al., ASPLOS'25), LightLLM",
  options: {
    ...peakAdmissionOptions,
    "history-size": { about: "recent answers that lengths are drawn from", default: 1000, min: 1 },
  },
  create: ({ rules, options, random }) =>
    new PeakAdmission(new RecentLengths(random, options["history-size"]), rules, options),
};
