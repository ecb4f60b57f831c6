import fc from "fast-check";
import { CacheReplay } from "../core/replica/replay.ts";
import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";
import { traceOf } from "./worlds.ts";

const law: Law = { name: "batches", says: "a trace that comes in batches gives the same hits as in one piece" };

/** A trace in pieces; not for policies that read the future, who are told all of it. */
export const inBatches: Trial = {
  laws: [law],
  runs: 60,
  cases(parts, small) {
    const evictions = parts.evictions.filter(({ offline }) => !offline);
    const whole = replays({ ...parts, evictions }, small);
    return fc.tuple(whole, fc.integer({ min: 1, max: 7 })).map(([one, batchOf]) => ({ ...one, batchOf }));
  },
  check({ world, config, batchOf }, parts) {
    const { blockUnits, ...rest } = config;
    const { scheduler } = parts.known;
    const replay = new CacheReplay({ scheduler, ...rest, blockTokens: world.unitTokens * blockUnits });
    for (const batch of traceOf(world, batchOf)) replay.feed(batch);
    const whole = replayOf(world, config, parts);
    const pieces = replay.result();
    same(law, "hits in batches", hitsOf(pieces), hitsOf(whole));
    same(law, "figures in batches", { ...pieces.cache.counters }, { ...whole.cache.counters });
  },
};
