import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

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
    const endless = { ...config, blocks: undefined };
    const { eviction } = parts.known;
    const expected = hitsOf(replayOf(world, { ...endless, eviction }, parts));
    same(law, "blocks that each request hits", hitsOf(replayOf(world, endless, parts)), expected);
  },
};
