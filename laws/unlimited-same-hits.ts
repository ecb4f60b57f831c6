import { isBounded, replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

/** More blocks than any case needs. In an unlimited cache no eviction policy would be called. */
const plenty = 2000;

const law: Law = {
  name: "unlimited-same-hits",
  statement: "in a cache that never evicts, it has the same hits as every other policy that stores all blocks",
};

/** Compares a cache that never evicts with the same cache under the reference policy. */
export const unlimitedSameHits: Trial = {
  laws: [law],
  runs: 40,
  cases: replays,
  check({ workload, config }, parts) {
    const endless = { ...config, blocks: plenty };
    const { eviction } = parts.reference;
    const other = replayOf(workload, { ...endless, eviction }, parts);
    if (isBounded(other.cache.rules)) return;
    const own = replayOf(workload, endless, parts);
    if (own.cache.storesAll) same(law, "blocks that each request hits", hitsOf(own), hitsOf(other));
  },
};
