import { isBounded, replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

/** More blocks than any case needs. In a cache that has no limit at all, no policy is asked. */
const plenty = 2000;

const law: Law = {
  name: "as-any-policy",
  says: "in a cache without limit it has the hits that any other policy has",
};

/** A cache that never evicts, beside the same with a policy that is known. */
export const asAnyPolicy: Trial = {
  laws: [law],
  runs: 40,
  cases: replays,
  check({ world, config }, parts) {
    const endless = { ...config, blocks: plenty };
    const { eviction } = parts.known;
    const other = replayOf(world, { ...endless, eviction }, parts);
    if (isBounded(other.cache.rules)) return;
    const expected = hitsOf(other);
    same(law, "blocks that each request hits", hitsOf(replayOf(world, endless, parts)), expected);
  },
};
