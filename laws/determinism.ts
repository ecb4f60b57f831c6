import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";

export const deterministic: Law = { name: "determinism", statement: "the same requests give the same decisions" };

/** Repeats a replay after a replay of other requests, which must not leave any state behind. */
export const determinism: Trial = {
  laws: [deterministic],
  runs: 100,
  compares: true,
  cases: replays,
  check({ workload, config }, parts) {
    const once = linesOf(replayOf(workload, config, parts, { events: true }).log!);
    const others = workload.requests.toReversed().map((request, id) => ({ ...request, id }));
    replayOf({ ...workload, requests: others }, config, parts);
    const again = linesOf(replayOf(workload, config, parts, { events: true }).log!);
    same(deterministic, "a second replay of the same requests differs", again, once);
  },
};
