import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";
import { lpmDefaults, lpmOrder } from "./waiting-order.ts";

/**
 * Longest prefix match: requests with most cached tokens are first. Of several with few cached tokens and a common prefix
 * only one keeps its place, and the others are last, so that its prefix is a hit for them. A long queue is in order of
 * arrival.
 */
export const lpm: SchedulerPlugin = {
  name: "lpm",
  about: "prompts first, that with the longest cached prefix first; of uncached ones that begin alike one at a time",
  source: "SGLang (lpm), Zheng et al. 2024",
  options: {
    ...prefillFirstOptions,
    "in-batch-prefix-caching-check-threshold": {
      about: "a request with more cached tokens is not compared with the waiting queue; -1: none is",
      default: lpmDefaults.checkThreshold,
      min: -1,
    },
    "in-batch-prefix-caching-deprioritize-threshold": {
      about: "who shares so many tokens with a request before it goes behind",
      default: lpmDefaults.deprioritizeThreshold,
    },
    "lpm-fallback-queue-len": { about: "a longer queue is served as it came", default: lpmDefaults.longestQueue },
  },
  create({ rules, options }) {
    const how = {
      checkThreshold: options["in-batch-prefix-caching-check-threshold"],
      deprioritizeThreshold: options["in-batch-prefix-caching-deprioritize-threshold"],
      longestQueue: options["lpm-fallback-queue-len"],
    };
    return new PrefillFirst(
      (context) => {
        if (context.waitingCount > how.longestQueue || context.waitingCount < 2) return undefined;
        return lpmOrder(queued(context), how).map(({ sequence }) => sequence);
      },
      rules,
      options,
    );
  },
};
