import { replays } from "./configs.ts";
import { type Law, require } from "./law.ts";
import { hitsOf, replayOf, sum } from "./replaying.ts";
import type { Trial } from "./trial.ts";

export const below: Law = { name: "optimum", says: "it never has more hits than the offline optimum" };

/** Hits beside those of a policy that reads the future. */
export const belowOptimum: Trial = {
  laws: [below],
  runs: 80,
  cases: (parts, small) => replays(parts, small, { noRules: true }),
  check({ world, config }, parts) {
    // Where partial last blocks of prompts count, there are other blocks to hit.
    if (config.index.unit === "prompt") return;
    const { index, optimum } = parts.known;
    const most = sum(hitsOf(replayOf(world, { ...config, index, eviction: optimum, rules: {} }, parts)));
    for (const eviction of parts.evictions) {
      if (eviction.unlimited) continue;
      const hits = sum(hitsOf(replayOf(world, { ...config, eviction }, parts)));
      require(below, hits <= most, () => `${eviction.name} has ${hits} hits, the optimum ${most}`);
    }
  },
};
