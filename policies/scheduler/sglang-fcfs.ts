import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";

/** SGLang's `--schedule-policy fcfs`: in order of arrival, those that were retracted behind. */
export const sglangFcfs: SchedulerPlugin = {
  name: "sglang-fcfs",
  about: "prompts first, in order of arrival; room for a share of the longest answers, retraction when it runs out",
  source: "SGLang (fcfs)",
  options: prefillFirstOptions,
  create: ({ rules, options }) => new PrefillFirst(() => undefined, rules, options),
};
