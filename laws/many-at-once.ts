import { scenarios } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { oneAtATime } from "./recorder.ts";
import { play } from "./scenario.ts";
import type { Trial } from "./trial.ts";

export const batched: Law = {
  name: "many-at-once",
  says: "addMany and takeMany, where it has them, do what add, victim and remove do",
};

/** What is decided with and without the batch methods. */
export const manyAtOnce: Trial = {
  laws: [batched],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const { config } = one;
    const plain = { ...one, script, checked: false };
    const single = { ...config, eviction: oneAtATime(config.eviction) };
    same(batched, "many at once", play(plain).decisions, play({ ...plain, config: single }).decisions);
  },
};
