import { peakTokens, type TokenDemand } from "../../policies/scheduler/peak-tokens.ts";
import type { Family } from "../family.ts";
import { integer, list, name, recordOf, shown, Unsupported } from "../values.ts";

/** LightLLM's Efficient Router: the peak number of tokens of some requests, and whether they are admitted. */
export const admissionEstimate: Family = {
  name: "admission-estimate",
  configKeys: ["formula"],
  ops: { peak: { inputs: ["capacity", "requests"], expects: { peak: "plain", admit: "plain" } } },
  start({ formula }) {
    const strict = formula !== undefined && isStrict(name(formula, "formula"));
    return {
      run(_, { capacity, requests }) {
        const peak = peakTokens(list(requests, "requests").map(demand));
        const available = () => integer(capacity, "capacity");
        return { peak, admit: () => (strict ? peak < available() : peak <= available()) };
      },
    };
  },
};

/** `{run_len, left_len}`, or LightLLM's own tuple (run, left). */
function demand(value: unknown): TokenDemand {
  if (Array.isArray(value) && value.length === 2)
    return {
      currentTokens: integer(value[0], "the first of a request"),
      remainingTokens: integer(value[1], "the second"),
    };
  const { run_len, left_len } = recordOf(value, "a request", ["run_len", "left_len"]);
  return { currentTokens: integer(run_len, "run_len"), remainingTokens: integer(left_len, "left_len") };
}

const estimate = String.raw`max_i\(left_i\*i\+sum_\{j<=i\}run_j\)`;
const peakOf = `(?:sort(?:ed)?by(?:left_len|left)(?:desc|descending|decreasing)[;,:.]?)?(?:peak(?:==?|:))?${estimate}`;
const formulas = new RegExp(
  String.raw`^(?:${peakOf}|peak(?=[<≤(]|,))?(?:\+frozen)?(?<compared><=|<)?(?:(?<=[=<])(?:capacity|max_total_token_num|max_total_tokens))?[,;]?(?<word>\(?(?:non-?strict|notstrict|strict)\)?)?$`,
);

/** As first published, a peak equal to the capacity is admitted; the current code requires less (strict). */
function isStrict(formula: string): boolean {
  const found = formulas.exec(formula.toLowerCase().replace(/\s+/g, "").replaceAll("≤", "<="))?.groups;
  const word = found?.["word"]?.replace(/[()]/g, "");
  const compared = found?.["compared"];
  const isStrictByWord = word === undefined ? undefined : word === "strict";
  const isStrictByOperator = compared === undefined ? undefined : compared === "<";
  const disagree =
    isStrictByWord !== undefined && isStrictByOperator !== undefined && isStrictByWord !== isStrictByOperator;
  if (found === undefined || formula.trim() === "" || disagree)
    throw new Unsupported(
      `formula is ${shown(formula)}, expected max_i(left_i*i + sum_{j<=i} run_j), and "< capacity" or "<= capacity" if need be`,
    );
  return isStrictByWord ?? isStrictByOperator ?? false;
}
