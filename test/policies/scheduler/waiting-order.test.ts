import fc from "fast-check";
import { expect, test } from "vitest";
import { deprioritized, lpmOrder, type Waiting } from "../../../policies/scheduler/waiting-order.ts";

/** A request by the path of its blocks: equal content ids stand for equal paths. */
const paths = fc.array(fc.array(fc.nat(2), { maxLength: 5 }), { maxLength: 12 });
const ids = new Map<string, number>();
function idOf(path: readonly number[]): number {
  const text = path.join();
  if (!ids.has(text)) ids.set(text, ids.size);
  return ids.get(text)!;
}

test("requests given as content ids are deprioritized as those given as tokens are, by whole blocks", () => {
  fc.assert(
    fc.property(paths, fc.integer({ min: 1, max: 6 }), fc.nat(24), (all, blockTokens, threshold) => {
      const cachedTokens = 0;
      const byId: Waiting[] = all.map((path) => ({
        tokens: path.map((_, i) => idOf(path.slice(0, i + 1))),
        cachedTokens,
        blockTokens,
      }));
      const byToken: Waiting[] = all.map((path) => ({
        tokens: path.flatMap((block) => new Array<number>(blockTokens).fill(block)),
        cachedTokens,
      }));
      const options = { checkThreshold: 32, maxQueue: 100 };
      const found = deprioritized(byId, { ...options, deprioritizeThreshold: threshold });
      const whole = Math.ceil(threshold / blockTokens) * blockTokens;
      const expected = deprioritized(byToken, { ...options, deprioritizeThreshold: whole });
      expect(byId.map((each) => found.has(each))).toEqual(byToken.map((each) => expected.has(each)));
    }),
  );
});

test("of requests with a common prefix of 32 tokens all but the first are last", () => {
  const waiting = (name: string, ...tokens: number[]) => ({ name, tokens, cachedTokens: 0, blockTokens: 16 });
  const queue = [waiting("a", 1, 2, 3), waiting("b", 1, 2, 4), waiting("c", 1, 5), waiting("d", 1)];
  expect(lpmOrder(queue).map(({ name }) => name)).toEqual(["a", "c", "d", "b"]);
});
