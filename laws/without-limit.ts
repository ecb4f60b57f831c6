import { isBounded, replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsWithoutLimit } from "./naive-model.ts";
import { hitsOf, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

const law: Law = {
  name: "without-limit",
  says: "in a cache without limit every request hits all that was computed before",
};

/** Every policy, in a cache that never evicts, against a set of prefixes. */
export const withoutLimit: Trial = {
  laws: [law],
  runs: 60,
  cases: replays,
  check({ world, config }, parts) {
    const { rules } = replayOf(world, config, parts).cache;
    if (isBounded(rules)) return;
    // Who steals a block takes its content from everyone else.
    if (rules.partial === "steal" || rules.partial === "steal-only") return;
    const nothing = world.asks.map(() => 0);
    const naive = hitsWithoutLimit(world, config, rules);
    const expected = config.index.none ? { blocks: nothing, tokens: nothing } : naive;
    for (const eviction of parts.evictions) {
      const replay = replayOf(world, { ...config, eviction, blocks: undefined }, parts);
      same(law, `blocks that each request hits, with ${eviction.name}`, hitsOf(replay), expected.blocks);
      const tokens = [...replay.requests.hitTokens];
      same(law, `tokens that each request hits, with ${eviction.name}`, tokens, expected.tokens);
    }
  },
};
