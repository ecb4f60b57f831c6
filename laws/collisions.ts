import { replays, scenarios, weakHash } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { replayOf } from "./replay-of.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

const law: Law = {
  name: "collisions",
  statement: "with a hash of which nearly all values collide, every decision is the same",
};

/** Overlapping requests, with a hash of two bits. */
export const collisions: Trial = {
  laws: [law],
  runs: 30,
  cases: (parts, small) => scenarios(parts, small, { hash: weakHash }),
  check({ script = [], ...one }) {
    const { hash: _hash, ...config } = one.config;
    same(
      law,
      "with colliding hashes",
      runScenario({ ...one, script }).log,
      runScenario({ ...one, config, script }).log,
    );
  },
};

/** The same comparison for a clock-free replay, one request at a time. */
export const collisionsOneAtATime: Trial = {
  laws: [law],
  runs: 60,
  cases: (parts, small) => replays(parts, small, { rules: { collision: "compare" } }),
  check({ workload, config }, parts) {
    const good = linesOf(replayOf(workload, config, parts, { events: true }).log!);
    const weak = linesOf(replayOf(workload, config, parts, { events: true, hash: weakHash }).log!);
    same(law, "with colliding hashes", weak, good);
  },
};
