import { noTrace } from "./book.ts";
import { scenarios } from "./configs.ts";
import { same } from "./law.ts";
import { play } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/** What happens when every admission that fails is tried three times. */
export const refusedAdmission: Trial = {
  laws: [noTrace],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const once = play({ ...one, script }).log;
    same(noTrace, "with every failing admission tried three times", play({ ...one, script, insist: 3 }).log, once);
  },
};
