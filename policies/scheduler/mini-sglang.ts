import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst } from "./prefill-first.ts";

/**
 * SGLang's scheduler simplified: prefill first, in order of arrival and in chunks. Blocks are reserved for `maxOutputTokens`
 * of every request, so that none is ever retracted.
 */
export const miniSglangScheduler: SchedulerPlugin = {
  name: "mini-sglang",
  about: "prefill first, in order of arrival; reserves blocks for `maxOutputTokens` of every request",
  source: "mini-sglang",
  options: {
    "max-running-requests": { about: "maximum running requests", default: 256, min: 1 },
    "max-prefill-length": {
      about: "maximum prompt tokens per step; the last prompt is chunked to fit",
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
