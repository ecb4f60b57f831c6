import { replays, scenarios, weakHash } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { linesOf } from "./log-lines.ts";
import { replayOf } from "./replaying.ts";
import { play } from "./scenario.ts";
import type { Trial } from "./trial.ts";

const law: Law = { name: "collisions", says: "where nearly all hashes collide, nothing is decided differently" };

/** Overlapping requests, with a hash that keeps two bits. */
export const collisions: Trial = {
  laws: [law],
  runs: 30,
  cases: (parts, small) => scenarios(parts, small, { hash: weakHash }),
  check({ script = [], ...one }) {
    const { hash: _hash, ...config } = one.config;
    same(law, "with colliding hashes", play({ ...one, script }).log, play({ ...one, config, script }).log);
  },
};

/** The same, one request at a time. */
export const collisionsOneAtATime: Trial = {
  laws: [law],
  runs: 60,
  cases: (parts, small) => replays(parts, small, { rules: { collision: "compare" } }),
  check({ world, config }, parts) {
    const good = linesOf(replayOf(world, config, parts, { events: true }).log!);
    const weak = linesOf(replayOf(world, config, parts, { events: true, hash: weakHash }).log!);
    same(law, "with colliding hashes", weak, good);
  },
};
