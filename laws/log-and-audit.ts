import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

const law: Law = { name: "log-and-audit", statement: "event log and audit do not change hits or metrics" };

/** Compares a replay without event log and audit with one that has both. */
export const logAndAudit: Trial = {
  laws: [law],
  runs: 60,
  compares: true,
  cases: replays,
  check({ workload, config }, parts) {
    const plain = replayOf(workload, config, parts);
    const watched = replayOf(workload, config, parts, { audit: true, events: true });
    same(law, "hits with log and audit", hitsOf(watched), hitsOf(plain));
    same(law, "counters with log and audit", { ...watched.cache.counters }, { ...plain.cache.counters });
  },
};
