import fc from "fast-check";
import { expect, test } from "vitest";
import { configs } from "../../laws/configs.ts";
import { linesOf } from "../../laws/log-lines.ts";
import { replayOf } from "../../laws/replay-of.ts";
import { evictionRegistry, indexRegistry } from "../../policies/registry.ts";
import { allPlugins } from "./all-plugins.ts";

test("another seed changes the victims of random", () => {
  const [config] = fc.sample(
    configs({ ...allPlugins, indexes: [indexRegistry.get("hash-table")] }, { noRules: true }),
    1,
  );
  const requests = Array.from({ length: 40 }, (_, id) => ({
    id,
    namespace: 0,
    prompt: Array.from({ length: 8 }, (_, i) => (i < 4 ? 1 : id)),
    output: [1],
    maxOutputTokens: 1,
    markedTokens: 0,
  }));
  const logs = [1, 2, 3, 4].map((seed) => {
    const own = { ...config, eviction: evictionRegistry.get("random"), blocks: 16, blockUnits: 1, seed };
    return linesOf(replayOf({ unitTokens: 1, requests: requests }, own, allPlugins, { events: true }).log!).join();
  });
  expect(new Set(logs).size).toBe(4);
});
