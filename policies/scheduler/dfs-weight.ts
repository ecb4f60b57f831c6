import type { SchedulerPlugin } from "../../core/plugins/index.ts";
import { PrefillFirst, prefillFirstOptions } from "./prefill-first.ts";
import { queued } from "./queued.ts";
import { dfsWeightOrder } from "./waiting-order.ts";

/**
 * Depth first through the cached prefixes, branches with the most waiting requests first. On a tie SGLang serves the
 * older branch of its tree first; here it is the branch whose request arrived first, because the prefix index has no order of
 * branches.
 */
export const dfsWeight: SchedulerPlugin = {
  name: "dfs-weight",
  about: "prefill first; depth first through the cached prefixes, branches with the most waiting requests first",
  source: "SGLang (dfs-weight)",
  options: prefillFirstOptions,
  create: ({ rules, options }) =>
    new PrefillFirst((context) => dfsWeightOrder(queued(context)).map(({ sequence }) => sequence), rules, options),
};
