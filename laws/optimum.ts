import fc from "fast-check";
import { configs } from "./configs.ts";
import { hold, type Law } from "./law.ts";
import { hitsOf, manyAsks, replayOf, sum } from "./replaying.ts";
import type { Trial } from "./trial.ts";

const law: Law = { name: "optimum", says: "it never has more hits than the offline optimum" };

/** Hits beside those of a policy that reads the future. */
export const belowOptimum: Trial = {
  laws: [law],
  runs: 80,
  cases: (parts) => fc.record({ world: manyAsks, config: configs(parts, { noRules: true }) }),
  check({ world, config }, parts) {
    const { index, optimum } = parts.known;
    const most = sum(hitsOf(replayOf(world, { ...config, index, eviction: optimum, rules: {} }, parts)));
    for (const eviction of parts.evictions) {
      if (eviction.unlimited) continue;
      const hits = sum(hitsOf(replayOf(world, { ...config, eviction }, parts)));
      hold(law, hits <= most, () => `${eviction.name} has ${hits} hits, the optimum ${most}`);
    }
  },
};
