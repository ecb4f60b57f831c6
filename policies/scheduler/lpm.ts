import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";
import { lpmDefaults, lpmOrder } from "./waiting-order.ts";

/**
 * Longest prefix match: requests with the most cached tokens are admitted first. Of several requests with few cached tokens
 * and a common prefix only the first keeps its place; the others are deprioritized to the end of the queue, so that the
 * prefix is a hit for them. A long queue is served in order of arrival.
 */
export const lpm: SchedulerPlugin = {
  name: "lpm",
  about: "prefill first; longest cached prefix first; of uncached prompts with a common prefix one at a time",
  source: "SGLang (lpm), Zheng et al. 2024",
  options: {
    ...prefillFirstOptions,
    "in-batch-prefix-caching-check-threshold": {
      about: "requests with more cached tokens are not compared with the waiting queue; -1: no request is compared",
      default: lpmDefaults.checkThreshold,
      min: -1,
    },
    "in-batch-prefix-caching-deprioritize-threshold": {
      about: "a request that shares at least this many tokens with an earlier one is deprioritized",
      default: lpmDefaults.deprioritizeThreshold,
    },
    "lpm-fallback-queue-len": { about: "a longer queue is served in order of arrival", default: lpmDefaults.maxQueue },
  },
  create({ rules, options }) {
    const lpmOptions = {
      checkThreshold: options["in-batch-prefix-caching-check-threshold"],
      deprioritizeThreshold: options["in-batch-prefix-caching-deprioritize-threshold"],
      maxQueue: options["lpm-fallback-queue-len"],
    };
    return new PrefillFirst(
      (context) => {
        if (context.waitingCount > lpmOptions.maxQueue || context.waitingCount < 2) return undefined;
        return lpmOrder(queued(context), lpmOptions).map(({ sequence }) => sequence);
      },
      rules,
      options,
    );
  },
};
