import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { allWaiting } from "./queued.ts";

/** Random order: the queue is shuffled (Fisher–Yates) whenever requests may be admitted. A baseline. */
export const random: SchedulerPlugin = {
  name: "random",
  about: "prefill first, in random order",
  source: "SGLang (random)",
  options: prefillFirstOptions,
  create: ({ rules, options, random: generator }) =>
    new PrefillFirst(
      (context) => {
        const queue = allWaiting(context);
        for (let i = queue.length - 1; i > 0; i--) {
          const other = generator.below(i + 1);
          [queue[i], queue[other]] = [queue[other], queue[i]];
        }
        return queue;
      },
      rules,
      options,
    ),
};
