import { expect, test } from "vitest";
import { evictionRegistry } from "../../../policies/registry.ts";
import { broken } from "../../laws/hook-faults.ts";
import { LiveCache } from "../../support/live-cache.ts";

const lru = evictionRegistry.get("lru");

/** The error of an eviction in a block trie of 6 blocks: "ab" is cached, "cd" is referenced, two blocks are free. */
function errorFor(victimOf: (live: LiveCache) => number): string {
  let victim: number | undefined;
  const eviction = broken(lru, (inner) => ({
    ...({ takeMany: undefined } as object),
    victim: (now) => victim ?? inner.victim(now),
  }));
  const live = new LiveCache({ index: "block-trie", eviction, blockTokens: 1, blocks: 6 });
  live.run("ab");
  live.arrive("cd", { output: "xyz" });
  live.step();
  victim = victimOf(live);
  try {
    live.arrive("efg");
    live.step();
  } catch (error) {
    return (error as Error).message;
  }
  return "no error";
}

const blockOf = (live: LiveCache, text: string) =>
  [...live.cache.index.blocks()].sort((a, b) => a - b)[live.cachedTexts().indexOf(text)];

test("the error about an invalid victim states why it is invalid", () => {
  const prefix = (victim: number) => `eviction policy returned entry ${victim} as victim, `;
  expect(errorFor(() => -1)).toBe(`${prefix(-1)}which does not exist`);
  expect(errorFor(() => 6)).toBe(`${prefix(6)}which does not exist`);
  expect(errorFor(() => 0.5)).toBe(`${prefix(0.5)}which does not exist`);
  expect(errorFor((live) => [...live.cache.freeList()][0])).toMatch(/^eviction policy .* which is not in the cache$/);
  expect(errorFor((live) => blockOf(live, "cd"))).toMatch(/^eviction policy .* which a request references$/);
  expect(errorFor((live) => blockOf(live, "a"))).toMatch(/^eviction policy .* which other entries extend$/);
});
