import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

export const deterministic: Law = { name: "determinism", says: "the same requests give the same decisions" };

/** The same replay again, after one of other requests, which must leave nothing behind. */
export const determinism: Trial = {
  laws: [deterministic],
  runs: 100,
  compares: true,
  cases: replays,
  check({ world, config }, parts) {
    const once = linesOf(replayOf(world, config, parts, { events: true }).log!);
    const others = world.asks.toReversed().map((ask, id) => ({ ...ask, id }));
    replayOf({ ...world, asks: others }, config, parts);
    const again = linesOf(replayOf(world, config, parts, { events: true }).log!);
    same(deterministic, "the same requests again are served otherwise", again, once);
  },
};
