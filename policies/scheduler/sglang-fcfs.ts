import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";

/** SGLang's `--schedule-policy fcfs`: in order of arrival; retracted requests are at the tail. */
export const sglangFcfs: SchedulerPlugin = {
  name: "sglang-fcfs",
  about:
    "prefill first, in order of arrival; reserves blocks for a share of the maximum output, retracts when they run out",
  source: "SGLang (fcfs)",
  options: prefillFirstOptions,
  create: ({ rules, options }) => new PrefillFirst(() => undefined, rules, options),
};
