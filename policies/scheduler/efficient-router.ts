import type { PluginOption, SchedulerContext, SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import { PeakAdmission, peakAdmissionOptions } from "./peak-admission.ts";

const options = {
  ...peakAdmissionOptions,
  "router-token-ratio": {
    about: "from this share of referenced blocks, an output is estimated at its maximum length",
    default: 0,
    fraction: true,
  },
  "router-max-new-tokens": {
    about:
      "below router-token-ratio: estimated output tokens, or 1.1 times the tokens generated so far if that is more",
    default: 1024,
  },
} as const satisfies Record<string, PluginOption>;

type Options = Readonly<Record<keyof typeof options, number>>;

/**
 * Estimated length of an output: `maxOutputTokens` while the cache is busy; else `router-max-new-tokens`, or 1.1 times the
 * tokens generated so far if that is more. With LightLLM's default the cache always counts as busy.
 */
const outputTokens = (given: Options) => (sequence: SequenceView, context: SchedulerContext) => {
  const { maxOutputTokens } = sequence.request;
  const { totalBlocks, referencedBlocks } = context;
  const isBusy = referencedBlocks / (totalBlocks ?? Number.POSITIVE_INFINITY) >= given["router-token-ratio"];
  if (isBusy) return maxOutputTokens;
  return Math.min(
    maxOutputTokens,
    Math.max(Math.floor(1.1 * sequence.generatedTokens), given["router-max-new-tokens"]),
  );
};

export const efficientRouter: SchedulerPlugin = {
  name: "efficient-router",
  about: "admission by the estimated peak of tokens in use; preemption when the estimate was too low",
  source: "LightLLM (Efficient Router)",
  options,
  create: ({ rules, options: given }) =>
    new PeakAdmission({ outputTokens: outputTokens(given as Options) }, rules, given),
};

/** LightLLM counts a shared prefix once for every request that shares it, and so admits fewer requests than fit. */
export const efficientRouterShared: SchedulerPlugin = {
  name: "efficient-router-shared",
  about: "as efficient-router, but a shared prefix counts once",
  source: "LightLLM (Efficient Router), changed here",
  options,
  create: ({ rules, options: given }) =>
    new PeakAdmission({ outputTokens: outputTokens(given as Options), sharesPrefixes: true }, rules, given),
};

/**
 * The router as LightLLM first published it, which admits up to the whole capacity. Its description sorts the requests by
 * their remaining output in ascending order; its code, like this one, in descending order.
 */
export const efficientRouterFirst: SchedulerPlugin = {
  name: "efficient-router-first",
  about: "as efficient-router, but admits a peak equal to the capacity, without six spare steps per request",
  source: "LightLLM (Efficient Router as first published, 2023)",
  options,
  create: ({ rules, options: given }) =>
    new PeakAdmission({ outputTokens: outputTokens(given as Options), isFirstForm: true }, rules, given),
};
