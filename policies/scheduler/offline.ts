import type { SchedulerPlugin } from "../../core/plugins.ts";
import { BatchByBatch } from "./batch-by-batch.ts";

/** All that is there is admitted, as far as it fits; then all answers are written to their end before anybody else. */
export const offline: SchedulerPlugin = {
  name: "offline",
  about: "admits all that wait, as many as fit, then writes all answers; then again",
  source: "roseinfer (OfflineScheduler)",
  create: ({ rules }) => new BatchByBatch(rules, Number.POSITIVE_INFINITY),
};
