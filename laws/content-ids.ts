import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

const law: Law = {
  name: "content-ids",
  statement: "a trace of content ids hits the same full blocks as the corresponding trace of tokens",
};

/** Compares replays of the same requests as tokens and as content ids. */
export const contentIds: Trial = {
  laws: [law],
  runs: 60,
  cases: (parts, small) => replays(parts, small, { noRules: true }),
  check({ workload, config }, parts) {
    const unitTokens = 2;
    const tokens = { ...config, blockUnits: unitTokens * config.blockUnits, blocks: undefined };
    const requests = workload.requests.map((request) => ({
      ...request,
      output: request.output.map((_, i) => 1000 * (request.id + 1) + i),
    }));
    const byToken = replayOf({ unitTokens: 1, requests: requests }, tokens, parts).cache.counters;
    const byContent = replayOf({ unitTokens, requests: requests }, { ...config, blocks: undefined }, parts).cache
      .counters;
    same(law, "full blocks hit", byContent.fullHitBlocks, byToken.fullHitBlocks);
    same(law, "full blocks looked up", byContent.fullLookupBlocks, byToken.fullLookupBlocks);
  },
};
