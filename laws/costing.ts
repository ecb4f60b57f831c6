import fc from "fast-check";
import type { StepLoad } from "../core/serving/step-load.ts";
import { type PartTrial, partTrial } from "./check-part.ts";
import { callsReturn } from "./contract-laws.ts";
import { type Law, require, same } from "./law.ts";

const wholeNs: Law = { name: "whole-nanoseconds", statement: "a step takes a whole number of nanoseconds, at least 1" };
const repeats: Law = { name: "determinism", statement: "equal loads take equal times" };
const unchanged: Law = { name: "reads-only", statement: "stepNs does not change the load" };

/** One amount of a step; amounts that exclude each other do not matter to these laws. */
const amount = fc.oneof(fc.constant(0), fc.nat(100_000));
const loads = fc.record<StepLoad>({
  ...{ sequences: fc.integer({ min: 1, max: 512 }), logits: fc.nat(512) },
  ...{ prefillTokens: amount, decodeTokens: fc.nat(512), prefillSequences: fc.nat(64) },
  ...{ prefillContextTokens: amount, decodeContextTokens: amount, longestDecodeTokens: amount, prefillPairs: amount },
  ...{ prefillWindowTokens: amount, decodeWindowTokens: amount, prefillWindowPairs: amount },
  ...{ calls: fc.nat(8), paddedContextTokens: amount, farContextTokens: amount, paddedPairs: amount },
  ...{ copiedBlocks: fc.nat(64), swappedTokens: amount },
});

/** The laws of a cost model. */
export const costTrials = (cost: { stepNs(load: Readonly<StepLoad>): number }): PartTrial[] => [
  partTrial({
    laws: [wholeNs, repeats, unchanged, callsReturn],
    cases: fc.array(loads, { minLength: 1, maxLength: 8 }),
    check(steps) {
      const before = JSON.stringify(steps);
      const first = steps.map((load) => cost.stepNs(load));
      for (const ns of first) require(wholeNs, Number.isSafeInteger(ns) && ns >= 1, `stepNs returned ${String(ns)}`);
      same(
        repeats,
        "times of the same loads again",
        steps.map((load) => cost.stepNs(load)),
        first,
      );
      same(unchanged, "loads afterwards", JSON.stringify(steps), before);
    },
  }),
];
