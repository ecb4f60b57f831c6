import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";

/**
 * Highest response ratio next: the most waiting time per token that is not cached. Short and cached prompts are admitted
 * first, and long ones do not starve. Ties are broken by arrival.
 */
export const hrrn: SchedulerPlugin = {
  name: "hrrn",
  about: "prefill first; highest waiting time per uncached token first",
  source: "SGLang (hrrn), Brinch Hansen 1971",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst(
      (context) => {
        const { now } = context;
        const queue = queued(context).map(({ sequence, cachedTokens }) => ({
          sequence,
          ratio: (now - sequence.request.arrivalNs) / Math.max(1, sequence.knownTokens - cachedTokens),
        }));
        return queue.sort((a, b) => b.ratio - a.ratio).map(({ sequence }) => sequence);
      },
      rules,
      options,
    ),
};
