import { victimIsPure } from "./book.ts";
import { scenarios } from "./configs.ts";
import { same } from "./law.ts";
import { play } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/** What is decided when victims are asked for that nobody needs, and when not. */
export const unasked: Trial = {
  laws: [victimIsPure],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const plain = play({ ...one, script, checked: false }).decisions;
    const asked = play({ ...one, script }).decisions;
    same(victimIsPure, "asked for victims that are not needed, it decides otherwise", asked, plain);
    const watched = play({ ...one, script, peek: false }).decisions;
    same(victimIsPure, "asked twice for each victim, it decides otherwise", watched, plain);
  },
};
