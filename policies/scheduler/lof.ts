import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { allWaiting } from "./queued.ts";
import { lofOrder } from "./waiting-order.ts";

/** Longest output first, by `maxOutputTokens`. */
export const lof: SchedulerPlugin = {
  name: "lof",
  about: "prefill first; highest `maxOutputTokens` first",
  source: "SGLang (lof)",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst(
      (context) => {
        const queue = allWaiting(context).map((sequence) => ({
          sequence,
          maxOutputTokens: sequence.request.maxOutputTokens,
        }));
        return lofOrder(queue).map(({ sequence }) => sequence);
      },
      rules,
      options,
    ),
};
