import fc from "fast-check";
import { configs } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { manyAsks, replayOf } from "./replaying.ts";
import type { Trial } from "./trial.ts";

export const deterministic: Law = { name: "determinism", says: "the same requests give the same decisions" };

/** The same replay again. */
export const determinism: Trial = {
  laws: [deterministic],
  runs: 40,
  cases: (parts) => fc.record({ world: manyAsks, config: configs(parts) }),
  check({ world, config }, parts) {
    const once = linesOf(replayOf(world, config, parts, { events: true }).log!);
    const again = linesOf(replayOf(world, config, parts, { events: true }).log!);
    same(deterministic, "the same requests again are served otherwise", again, once);
  },
};
