import { scenarios } from "./configs.ts";
import { victimIsPure } from "./contract-laws.ts";
import { same } from "./law.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/** Compares the decisions with and without additional calls of `victim()`. */
export const extraVictimCalls: Trial = {
  laws: [victimIsPure],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const plain = runScenario({ ...one, script, checked: false }).decisions;
    const withExtraCalls = runScenario({ ...one, script }).decisions;
    same(victimIsPure, "additional calls of victim() change decisions", withExtraCalls, plain);
    const withoutExtraCalls = runScenario({ ...one, script, extraVictimCalls: false }).decisions;
    same(victimIsPure, "a second call of victim() per victim changes decisions", withoutExtraCalls, plain);
  },
};
