import type { SchedulerContext, SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import { ContinuousBatching, continuousOptions, type Precedence } from "./continuous.ts";
import { lastAdmitted } from "./room.ts";

/**
 * Of the first `window` requests that wait, the one with the fewest tokens left to compute when what is cached is taken
 * off, of equals the first. So that a long prompt does not wait for ever, each second of waiting counts as
 * `agingTokens` tokens less. The window bounds the cost of a step: each look is a lookup in the cache.
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
    for (let looked = 0; sequence && looked < this.#window; looked++, sequence = sequence.next) {
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
  about: "continuous batching, the shortest prompt first, what is cached of it not counted",
  source: "SGLang (shortest-prefill-first)",
  options: {
    ...continuousOptions,
    window: { about: "how many of those that wait are compared", default: 128, min: 1 },
    "aging-tokens-per-s": { about: "tokens by which a second of waiting makes a prompt shorter", default: 0 },
  },
  create: ({ rules, options }) =>
    new ContinuousBatching(new ShortestFirst(options["window"], options["aging-tokens-per-s"]), rules, options),
};
