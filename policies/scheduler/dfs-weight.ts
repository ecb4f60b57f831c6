import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";
import { dfsWeightOrder } from "./waiting-order.ts";

/**
 * Depth first through the cached prefixes, branches with most waiting requests first. Of branches with equally many, SGLang
 * serves the older one in its tree first; here the one whose request arrived first, because a cache has no such order.
 */
export const dfsWeight: SchedulerPlugin = {
  name: "dfs-weight",
  about: "prompts first, depth first through what is cached, where most requests wait first",
  source: "SGLang (dfs-weight)",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst((context) => dfsWeightOrder(queued(context)).map(({ sequence }) => sequence), rules, options),
};
