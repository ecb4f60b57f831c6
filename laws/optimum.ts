import { replays } from "./configs.ts";
import { type Law, require } from "./law.ts";
import { hitsOf, replayOf, sum } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

export const belowOptimumLaw: Law = {
  name: "below-optimum",
  statement: "it never has more hits than the offline optimum",
};

/** Compares the hits with those of the offline optimum. */
export const belowOptimum: Trial = {
  laws: [belowOptimumLaw],
  runs: 80,
  cases: (parts, small) => replays(parts, small, { noRules: true }),
  check({ workload, config }, parts) {
    // An index of whole prompts also hits partial last blocks, which the optimum does not.
    if (config.index.unit === "prompt") return;
    const { index, optimum } = parts.reference;
    const most = sum(hitsOf(replayOf(workload, { ...config, index, eviction: optimum, rules: {} }, parts)));
    for (const eviction of parts.evictions) {
      if (eviction.unlimited) continue;
      const hits = sum(hitsOf(replayOf(workload, { ...config, eviction }, parts)));
      require(belowOptimumLaw, hits <= most, () => `${eviction.name} has ${hits} hits, the optimum ${most}`);
    }
  },
};
