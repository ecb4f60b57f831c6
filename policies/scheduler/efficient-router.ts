import type { PluginOption, SchedulerContext, SchedulerPlugin, SequenceView } from "../../core/plugins/index.ts";
import { PeakAdmission, peakAdmissionOptions } from "./peak-admission.ts";

const options = {
  ...peakAdmissionOptions,
  "router-token-ratio": {
    about: "share of the cache in use from which answers count in full",
    default: 0,
    fraction: true,
  },
  "router-max-new-tokens": {
    about: "below that, answers count as this long, or a tenth longer than they are",
    default: 1024,
  },
} as const satisfies Record<string, PluginOption>;

type Options = Readonly<Record<keyof typeof options, number>>;

/**
 * Estimated length of an output: `maxOutputTokens` while the cache is busy; else at most a usual length, or a tenth more than
 * the output has so far. With LightLLM's default the cache always counts as busy.
 */
const outputTokens = (given: Options) => (sequence: SequenceView, context: SchedulerContext) => {
  const { maxOutputTokens } = sequence.request;
  const { totalBlocks, referencedBlocks: heldBlocks } = context;
  const isBusy = heldBlocks / (totalBlocks ?? Number.POSITIVE_INFINITY) >= given["router-token-ratio"];
  if (isBusy) return maxOutputTokens;
  return Math.min(
    maxOutputTokens,
    Math.max(Math.floor(1.1 * sequence.generatedTokens), given["router-max-new-tokens"]),
  );
};

export const efficientRouter: SchedulerPlugin = {
  name: "efficient-router",
  about: "admission by the most tokens that all who run will hold at once; pause when it was wrong",
  source: "LightLLM (Efficient Router)",
  options,
  create: ({ rules, options: given }) =>
    new PeakAdmission({ outputTokens: outputTokens(given as Options) }, rules, given),
};

/** LightLLM counts a shared prefix for every request that shares it, and so admits fewer than fit. */
export const efficientRouterShared: SchedulerPlugin = {
  name: "efficient-router-shared",
  about: "as efficient-router, but a prefix that requests share counts once",
  source: "LightLLM (Efficient Router), changed here",
  options,
  create: ({ rules, options: given }) =>
    new PeakAdmission({ outputTokens: outputTokens(given as Options), sharesPrefixes: true }, rules, given),
};
