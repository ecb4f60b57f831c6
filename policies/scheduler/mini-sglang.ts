import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst } from "./prefill-first.ts";

/**
 * SGLang's scheduler in short: prompts first, in order of arrival and in chunks, with room kept for all of the longest
 * outputs, so that no sequence is ever retracted.
 */
export const miniSglangScheduler: SchedulerPlugin = {
  name: "mini-sglang",
  about: "prompts first, in order of arrival; room for all of the longest answers",
  source: "mini-sglang",
  options: {
    "max-running-requests": { about: "most requests that run", default: 256, min: 1 },
    "max-prefill-length": {
      about: "most prompt tokens of a step, the last request cut to fit",
      default: 8192,
      min: 1,
    },
  },
  create: ({ rules, options }) =>
    new PrefillFirst(() => undefined, rules, {
      "max-running-requests": options["max-running-requests"],
      "max-prefill-tokens": Number.MAX_SAFE_INTEGER,
      "chunked-prefill-size": options["max-prefill-length"],
      "mixed-chunk": 0,
      "init-new-token-ratio": 1,
      "min-new-token-ratio-factor": 1,
      "new-token-ratio-decay-steps": 1,
      "clip-max-new-tokens": Number.MAX_SAFE_INTEGER,
      "retract-decode-steps": 1,
    }),
};
