import fc from "fast-check";
import { expect, test } from "vitest";
import { configs } from "../../laws/configs.ts";
import { linesOf } from "../../laws/log-lines.ts";
import { replayOf } from "../../laws/replaying.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { everyPart } from "./parts.ts";

test("another seed changes what random evicts", () => {
  const [config] = fc.sample(
    configs({ ...everyPart, indexes: [indexRegistry.get("hash-table")] }, { noRules: true }),
    1,
  );
  const asks = Array.from({ length: 40 }, (_, id) => ({
    id,
    namespace: 0,
    prompt: Array.from({ length: 8 }, (_, i) => (i < 4 ? 1 : id)),
    answer: [1],
    maxOutputTokens: 1,
    markedTokens: 0,
  }));
  const logs = [1, 2, 3, 4].map((seed) => {
    const own = { ...config, eviction: evictionRegistry.get("random"), blocks: 16, blockUnits: 1, seed };
    return linesOf(replayOf({ unitTokens: 1, asks }, own, everyPart, { events: true }).log!).join();
  });
  expect(new Set(logs).size).toBe(4);
});
