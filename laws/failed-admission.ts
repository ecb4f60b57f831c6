import { scenarios } from "./configs.ts";
import { failedAdmission } from "./contract-laws.ts";
import { same } from "./law.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

/** Compares the event logs with every failing admission tried once and tried three times. */
export const failedAdmissionRetries: Trial = {
  laws: [failedAdmission],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const once = runScenario({ ...one, script }).log;
    same(
      failedAdmission,
      "with every failing admission tried three times",
      runScenario({ ...one, script, admissionAttempts: 3 }).log,
      once,
    );
  },
};
