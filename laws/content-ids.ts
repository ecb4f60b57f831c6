import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

const law: Law = {
  name: "content-ids",
  says: "a trace of content ids hits the same whole blocks as the tokens that it stands for",
};

/** The same requests as tokens and as content ids. */
export const contentIds: Trial = {
  laws: [law],
  runs: 60,
  cases: (parts, small) => replays(parts, small, { noRules: true }),
  check({ world, config }, parts) {
    const unitTokens = 2;
    const tokens = { ...config, blockUnits: unitTokens * config.blockUnits, blocks: undefined };
    const asks = world.asks.map((ask) => ({ ...ask, answer: ask.answer.map((_, i) => 1000 * (ask.id + 1) + i) }));
    const byToken = replayOf({ unitTokens: 1, asks }, tokens, parts).cache.counters;
    const byContent = replayOf({ unitTokens, asks }, { ...config, blocks: undefined }, parts).cache.counters;
    same(law, "whole blocks hit", byContent.fullHitBlocks, byToken.fullHitBlocks);
    same(law, "whole blocks looked up", byContent.fullLookupBlocks, byToken.fullLookupBlocks);
  },
};
