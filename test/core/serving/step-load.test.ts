import fc from "fast-check";
import { expect, test } from "vitest";
import type { Sequence } from "../../../core/cache/request.ts";
import { StepPlan } from "../../../core/replica/step.ts";
import { measure, noLoad } from "../../../core/serving/step-load.ts";

const item = fc.record({ from: fc.nat(30), tokens: fc.nat(12), prefill: fc.boolean(), generate: fc.nat(1) });

/** Query-key pairs, and distinct keys, counted one by one. */
function attended(from: number, tokens: number, window: number) {
  const keys = new Set<number>();
  let pairs = 0;
  for (let query = from; query < from + tokens; query++) {
    for (let key = Math.max(0, query - window + 1); key <= query; key++) {
      keys.add(key);
      pairs++;
    }
  }
  return { keys: keys.size, pairs };
}

test("the load of a step is that of its query-key pairs, counted one by one", () => {
  fc.assert(
    fc.property(
      fc.array(item),
      fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
      (drafts, windowTokens) => {
        // A decode computes one token; a request with stored logits computes none.
        const items = drafts.map((each) => (each.prefill ? each : { ...each, tokens: 1, generate: 1 }));
        const plan = new StepPlan([{ source: 1, target: 2 }]);
        plan.swappedTokens = 9;
        const sequence = {} as Sequence;
        for (const { from, tokens, prefill, generate } of items) plan.add(sequence, from, tokens, prefill, generate);
        const load = noLoad();
        measure(load, plan, windowTokens);
        const sum = (of: (each: (typeof items)[number]) => number, prefill?: boolean) =>
          items.reduce((all, each) => all + (prefill === undefined || each.prefill === prefill ? of(each) : 0), 0);
        const inWindow = ({ from, tokens }: { from: number; tokens: number }) =>
          attended(from, tokens, windowTokens ?? 1000);
        const inAll = ({ from, tokens }: { from: number; tokens: number }) => attended(from, tokens, 1000);
        expect(load).toEqual({
          sequences: items.length,
          logits: sum(({ generate }) => generate),
          prefillTokens: sum(({ tokens }) => tokens, true),
          decodeTokens: sum(({ tokens }) => tokens, false),
          prefillSequences: sum(({ tokens }) => Math.sign(tokens), true),
          prefillContextTokens: sum((each) => inAll(each).keys, true),
          decodeContextTokens: sum((each) => inAll(each).keys, false),
          longestDecodeTokens: Math.max(0, ...items.map(({ from, prefill }) => (prefill ? 0 : from + 1))),
          prefillPairs: sum((each) => inAll(each).pairs, true),
          prefillWindowTokens: sum((each) => inWindow(each).keys, true),
          decodeWindowTokens: sum((each) => inWindow(each).keys, false),
          prefillWindowPairs: sum((each) => inWindow(each).pairs, true),
          // The division into calls is unknown.
          ...{ calls: 0, paddedContextTokens: 0, farContextTokens: 0, paddedPairs: 0 },
          copiedBlocks: 1,
          swappedTokens: 9,
        });
      },
    ),
  );
});
