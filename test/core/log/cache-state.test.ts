import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockState } from "../../../core/cache/pool.ts";
import { LoggedState } from "../../../core/log/block-lives.ts";
import { CacheState } from "../../../core/log/cache-state.ts";
import type { CacheConfig } from "../../../core/replica/compose.ts";
import { LiveCache } from "../../support/live-cache.ts";

/** The state in the log of each state of a block in the cache. */
const logged: Record<number, number> = {
  [BlockState.free]: LoggedState.free,
  [BlockState.reserved]: LoggedState.private,
  [BlockState.computing]: LoggedState.private,
  [BlockState.published]: LoggedState.referenced,
  [BlockState.idle]: LoggedState.idle,
};

const blocks = 5;

/** Serves the prompts together; after each step, the states read from the log must be those of the cache. */
function checkStates(index: string, rules: CacheConfig["rules"], prompts: readonly string[]): void {
  const live = new LiveCache({ index, blocks, blockTokens: rules?.partial ? 2 : 1, rules });
  const state = new CacheState();
  state.grow(blocks);
  let read = 0;
  for (const prompt of prompts) live.arrive(prompt, { output: "xy" });
  while (!live.replica.isIdle) {
    live.step();
    state.read(live.log, read, live.log.count);
    read = live.log.count;
    const inCache = Array.from({ length: blocks }, (_, block) => logged[live.cache.pool.stateOf(block)]);
    expect([...state.life].slice(0, blocks)).toEqual(inCache);
    const count = (name: keyof typeof LoggedState) => inCache.filter((one) => one === LoggedState[name]).length;
    expect(state.blockCounts()).toEqual({
      private: count("private"),
      cachedHeld: count("referenced"),
      cachedIdle: count("idle"),
    });
  }
}

const prompts = fc.array(fc.string({ unit: fc.constantFrom("a", "b"), minLength: 1, maxLength: 4 }), { maxLength: 12 });

test.each([
  ["hash-table", { duplicates: "adopt", "free-order": "forward" }],
  ["hash-table", { duplicates: "keep" }],
  ["block-trie", { duplicates: "swap" }],
  ["block-trie", { partial: "steal" }],
] as const)("the states of blocks read from the log are those of the cache: %s, %o", (index, rules) => {
  fc.assert(
    fc.property(prompts, (all) => checkStates(index, rules, all)),
    { numRuns: 60 },
  );
});
