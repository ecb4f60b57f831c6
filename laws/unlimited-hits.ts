import { isBounded, replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { modelledUnlimitedHits } from "./reference-model.ts";
import { hitsOf, replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

const law: Law = {
  name: "unlimited-hits",
  statement: "in an unlimited cache every request hits all of its prefix that was computed before",
};

/** Compares every policy, in a cache that never evicts, with the reference model. */
export const unlimitedHits: Trial = {
  laws: [law],
  runs: 60,
  cases: replays,
  check({ workload, config }, parts) {
    const { rules } = replayOf(workload, config, parts).cache;
    if (isBounded(rules)) return;
    // A block that is taken over loses its old content, which the model does not represent.
    if (rules.partial === "steal" || rules.partial === "steal-only") return;
    const nothing = workload.requests.map(() => 0);
    const naive = modelledUnlimitedHits(workload, config, rules);
    const expected = config.index.storesNothing ? { blocks: nothing, tokens: nothing } : naive;
    for (const eviction of parts.evictions) {
      const replay = replayOf(workload, { ...config, eviction, blocks: undefined }, parts);
      same(law, `blocks that each request hits, with ${eviction.name}`, hitsOf(replay), expected.blocks);
      const tokens = [...replay.requests.hitTokens];
      same(law, `tokens that each request hits, with ${eviction.name}`, tokens, expected.tokens);
    }
  },
};
