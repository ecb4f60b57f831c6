import { InputError, PolicyError } from "../core/errors.ts";
import { type RuleName, type RuleValue, ruleNames } from "../core/plugins/rules.ts";
import { scenarios, supportedValues } from "./configs.ts";
import { type Law, LawBroken } from "./law.ts";
import type { PluginSet } from "./plugin-set.ts";
import { runScenario } from "./scenario.ts";
import type { Trial } from "./trial.ts";

export const everyRule: Law = {
  name: "every-rule",
  statement: "the laws above hold with every index and every value of every rule",
};

/** One trial per index and supported value of each rule, with the other rules at their defaults. */
export function ruleTrials({ indexes }: Pick<PluginSet, "indexes">, known: (law: Law) => boolean): Trial[] {
  return indexes.flatMap((index) =>
    ruleNames.flatMap((name) =>
      supportedValues(index, name).map((value): Trial => {
        const rules: Partial<Record<RuleName, RuleValue>> = { [name]: value };
        return {
          laws: [everyRule],
          runs: 3,
          cases: (parts, small) => scenarios({ ...parts, indexes: [index] }, small, { noRules: true, rules }),
          check({ script = [], ...one }) {
            try {
              runScenario({ ...one, script });
            } catch (error) {
              if (error instanceof InputError && !(error instanceof PolicyError)) throw error;
              if (error instanceof LawBroken && known(error.law)) return;
              const { message } = error as Error;
              throw new LawBroken(everyRule, `with index ${index.name} and ${name}=${value}: ${message}`);
            }
          },
        };
      }),
    ),
  );
}
