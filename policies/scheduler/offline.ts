import type { PluginOption, SchedulerPlugin } from "../../core/plugins/index.ts";
import { BatchByBatch } from "./batch-by-batch.ts";

/**
 * roseinfer's first version computes each prompt in a separate step when its request is added, so that the next one can hit
 * it.
 */
export const promptsPerStep = {
  "prompts-per-step": { about: "maximum prompts per step; 0: no limit", default: 0 },
} as const satisfies Record<string, PluginOption>;

/** Admits all waiting requests that fit; then decodes until all of them have finished, before the next admissions. */
export const offline: SchedulerPlugin = {
  name: "offline",
  about: "admits all waiting requests that fit, then decodes until all have finished, then repeats",
  source: "roseinfer (OfflineScheduler)",
  options: promptsPerStep,
  create: ({ rules, options }) =>
    new BatchByBatch(rules, Number.POSITIVE_INFINITY, options["prompts-per-step"] || Number.POSITIVE_INFINITY),
};
