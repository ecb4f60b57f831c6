import fc from "fast-check";
import { CacheReplay } from "../core/replica/replay.ts";
import { replays } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { hitsOf, replayOf } from "./replay-of.ts";
import type { Trial } from "./trial.ts";
import { traceOf } from "./workloads.ts";

const law: Law = {
  name: "trace-batches",
  statement: "a trace that is fed in batches gives the same hits as in one piece",
};

/** Compares a replay of a trace in batches with one of the whole trace; offline policies need the whole trace. */
export const traceBatches: Trial = {
  laws: [law],
  runs: 60,
  cases(parts, small) {
    const evictions = parts.evictions.filter(({ offline }) => !offline);
    const whole = replays({ ...parts, evictions }, small);
    return fc.tuple(whole, fc.integer({ min: 1, max: 7 })).map(([one, batchOf]) => ({ ...one, batchOf }));
  },
  check({ workload, config, batchOf }, parts) {
    const { blockUnits, ...rest } = config;
    const { scheduler } = parts.reference;
    const replay = new CacheReplay({ scheduler, ...rest, blockTokens: workload.unitTokens * blockUnits });
    for (const batch of traceOf(workload, batchOf)) replay.feed(batch);
    const whole = replayOf(workload, config, parts);
    const pieces = replay.result();
    same(law, "hits in batches", hitsOf(pieces), hitsOf(whole));
    same(law, "counters in batches", { ...pieces.cache.counters }, { ...whole.cache.counters });
  },
};
