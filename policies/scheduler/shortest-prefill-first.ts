import type { SchedulerContext, SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, type Precedence } from "./continuous.ts";
import { lastAdmitted } from "./out-of-blocks.ts";

/**
 * Of the first `window` waiting requests, the one with the fewest uncached tokens; ties are broken by queue order. So that a
 * long prompt does not starve, each second of waiting subtracts `agingTokens` tokens. The window bounds the cost of a step,
 * because every comparison is a cache lookup.
 */
class ShortestFirst implements Precedence {
  readonly victimOf = lastAdmitted;
  readonly changesWithTime: boolean;
  readonly #window: number;
  readonly #agingTokens: number;

  constructor(window: number, agingTokens: number) {
    this.#window = window;
    this.#agingTokens = agingTokens;
    this.changesWithTime = agingTokens > 0;
  }

  first(context: SchedulerContext): SequenceView | undefined {
    let first = context.firstWaiting;
    if (first?.next === undefined) return first;
    const now = this.#agingTokens > 0 ? context.now : 0;
    let least = Number.POSITIVE_INFINITY;
    let sequence = context.firstWaiting;
    for (let compared = 0; sequence && compared < this.#window; compared++, sequence = sequence.next) {
      const aging = (this.#agingTokens * (now - sequence.request.arrivalNs)) / 1e9;
      const tokens = sequence.knownTokens - context.cachedTokens(sequence) - aging;
      if (tokens >= least) continue;
      least = tokens;
      first = sequence;
    }
    return first;
  }
}

export const shortestPrefillFirst: SchedulerPlugin = {
  name: "shortest-prefill-first",
  about: "continuous batching, fewest uncached prompt tokens first",
  source: "SGLang (shortest-prefill-first)",
  options: {
    ...continuousOptions,
    window: { about: "waiting requests that are compared", default: 128, min: 1 },
    "aging-tokens-per-s": { about: "tokens that are subtracted per second of waiting", default: 0 },
  },
  create: ({ rules, options }) =>
    new ContinuousBatching(new ShortestFirst(options["window"], options["aging-tokens-per-s"]), rules, options),
};
