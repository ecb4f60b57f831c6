import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";
import { dfsWeightOrder } from "./waiting-order.ts";

/**
 * Depth first through what is cached, where most requests wait first. Of branches with as many, SGLang takes that which is
 * older in its tree; here the one whose request came first goes first, for a cache does not tell how old it is.
 */
export const dfsWeight: SchedulerPlugin = {
  name: "dfs-weight",
  about: "prompts first, depth first through what is cached, where most requests wait first",
  source: "SGLang (dfs-weight)",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst((context) => dfsWeightOrder(queued(context)).map(({ sequence }) => sequence), rules, options),
};
