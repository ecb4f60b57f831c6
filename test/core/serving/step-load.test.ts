import fc from "fast-check";
import { expect, test } from "vitest";
import type { Sequence } from "../../../core/cache/request.ts";
import { StepPlan } from "../../../core/replica/step.ts";
import { measure, noLoad } from "../../../core/serving/step-load.ts";

const item = fc.record({ from: fc.nat(30), tokens: fc.nat(12), prefill: fc.boolean(), generate: fc.nat(1) });

/** Keys that each query meets, and those that any of them does, counted one by one. */
function seen(from: number, tokens: number, window: number) {
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

test("a step's load is what its queries meet, key by key", () => {
  fc.assert(
    fc.property(
      fc.array(item),
      fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined }),
      (drafts, windowTokens) => {
        // An answer's token is one; stored logits take none.
        const items = drafts.map((each) => (each.prefill ? each : { ...each, tokens: 1, generate: 1 }));
        const plan = new StepPlan([{ source: 1, target: 2 }]);
        plan.swappedTokens = 9;
        const nobody = {} as Sequence;
        for (const { from, tokens, prefill, generate } of items) plan.add(nobody, from, tokens, prefill, generate);
        const load = noLoad();
        measure(load, plan, windowTokens);
        const sum = (of: (each: (typeof items)[number]) => number, prefill?: boolean) =>
          items.reduce((all, each) => all + (prefill === undefined || each.prefill === prefill ? of(each) : 0), 0);
        const inWindow = ({ from, tokens }: { from: number; tokens: number }) =>
          seen(from, tokens, windowTokens ?? 1000);
        const inAll = ({ from, tokens }: { from: number; tokens: number }) => seen(from, tokens, 1000);
        expect(load).toEqual({
          sequences: items.length,
          logits: sum(({ generate }) => generate),
          prefillTokens: sum(({ tokens }) => tokens, true),
          decodeTokens: sum(({ tokens }) => tokens, false),
          prefillSequences: sum(({ tokens }) => Math.sign(tokens), true),
          prefillContextTokens: sum((each) => inAll(each).keys, true),
          decodeContextTokens: sum((each) => inAll(each).keys, false),
          prefillPairs: sum((each) => inAll(each).pairs, true),
          prefillWindowTokens: sum((each) => inWindow(each).keys, true),
          decodeWindowTokens: sum((each) => inWindow(each).keys, false),
          prefillWindowPairs: sum((each) => inWindow(each).pairs, true),
          // How an engine divides steps is not known.
          ...{ calls: 0, paddedContextTokens: 0, farContextTokens: 0, paddedPairs: 0 },
          copiedBlocks: 1,
          swappedTokens: 9,
        });
      },
    ),
  );
});
