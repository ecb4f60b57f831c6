import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

const law: Law = { name: "unwatched", says: "with log and audit, or without, hits and figures are the same" };

/** A replay that keeps no log, and one that is checked in full. */
export const unwatched: Trial = {
  laws: [law],
  runs: 60,
  compares: true,
  cases: replays,
  check({ world, config }, parts) {
    const plain = replayOf(world, config, parts);
    const watched = replayOf(world, config, parts, { audit: true, events: true });
    same(law, "hits with log and audit", hitsOf(watched), hitsOf(plain));
    same(law, "figures with log and audit", { ...watched.cache.counters }, { ...plain.cache.counters });
  },
};
