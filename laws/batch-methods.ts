import { withoutBatchMethods } from "./checked-policy.ts";
import { scenarios } from "./configs.ts";
import { type Law, same } from "./law.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

export const batchMethodsLaw: Law = {
  name: "batch-methods",
  statement: "addMany(), takeMany() and takeNext(), if present, are equivalent to add(), victim() and remove()",
};

/** Compares the decisions with and without the batch methods. */
export const batchMethods: Trial = {
  laws: [batchMethodsLaw],
  runs: 25,
  compares: true,
  cases: scenarios,
  check({ script = [], ...one }) {
    const { config } = one;
    const plain = { ...one, script, checked: false };
    const single = { ...config, eviction: withoutBatchMethods(config.eviction) };
    same(
      batchMethodsLaw,
      "with batch methods",
      runScenario(plain).decisions,
      runScenario({ ...plain, config: single }).decisions,
    );
  },
};
