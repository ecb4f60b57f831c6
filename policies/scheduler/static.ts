import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { BatchByBatch } from "./batch-by-batch.ts";

/** A batch runs until all its requests have finished; then the next one is admitted. */
export const staticBatching: SchedulerPlugin = {
  name: "static",
  about: "batches of fixed size, each of which runs until all its requests have finished",
  source: "FasterTransformer, as the baseline of Orca (Yu et al., OSDI 2022)",
  options: { "batch-size": { about: "maximum requests per batch", default: 8, min: 1 } },
  create: ({ rules, options }) => new BatchByBatch(rules, options["batch-size"]),
};
