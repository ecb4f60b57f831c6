import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";

/**
 * Highest response ratio next: waiting time per token that is still to be computed. Short and cached prompts are first, and
 * long ones do not starve. Equals are in order of arrival.
 */
export const hrrn: SchedulerPlugin = {
  name: "hrrn",
  about: "prompts first, that which has waited longest for each token that is not cached first",
  source: "SGLang (hrrn), Brinch Hansen 1971",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst(
      (context) => {
        const { now } = context;
        const queue = queued(context).map(({ sequence, matched }) => ({
          sequence,
          ratio: (now - sequence.request.arrivalNs) / Math.max(1, sequence.knownTokens - matched),
        }));
        return queue.sort((a, b) => b.ratio - a.ratio).map(({ sequence }) => sequence);
      },
      rules,
      options,
    ),
};
