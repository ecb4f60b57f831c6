import { expect, test } from "vitest";
import { audit } from "../../../core/cache/audit.ts";
import type { EvictionPlugin } from "../../../core/plugins/index.ts";
import { evictionRegistry } from "../../../policies/registry.ts";
import { blockTokens, letterTrace, served } from "../../support/letters.ts";
import { LiveCache, type LiveConfig } from "../../support/live-cache.ts";
import { replayed } from "../../support/replays.ts";

const lru = evictionRegistry.get("lru");
/** Least recently used first, with every column kept. */
const watching: EvictionPlugin = {
  ...lru,
  create(context) {
    context.columns.keepAll();
    return lru.create(context);
  },
};

test("the rest of a node of output tokens, a prompt's partial block, ends where the prompt ends", () => {
  // Each prompt of 8 tokens and its output need two blocks; the second block of the first prompt is evicted.
  const trace = letterTrace(["A", "B"], { lastTokens: 8, outputTokens: 2 * blockTokens - 8 + 1 });
  const own = { eviction: watching, rules: { "cache-generated": "true" }, blocks: 3 };
  const { cache } = replayed(trace, { index: "radix-tree", ...own });
  const { depth, tokens } = cache.entries.columns;
  const left = [...cache.index.blocks()].map((block) => cache.index.entryOf(block));
  expect(left.map((entry) => depth[entry]).sort((a, b) => a - b)).toEqual([8, 8, 2 * blockTokens]);
  expect(left.map((entry) => tokens[entry]).sort((a, b) => a - b)).toEqual([8, 8, blockTokens]);
});

test("in a block trie a block whose content collides with another path stays private, and those before it are stored", () => {
  // The hash of a block is its last letter: the second block of "cb" has the content id of "b" after "a".
  const hash: NonNullable<LiveConfig["hash"]> = (lanes, tokens, from, count) => lanes.fill(tokens[from + count - 1]);
  const live = new LiveCache({ index: "block-trie", blockTokens: 1, hash, rules: { collision: "trust" } });
  live.run("ab");
  live.run("cb");
  expect(live.cache.index.blockCount).toBe(3);
  expect(live.cache.counters.insertedBlocks).toBe(3);
  expect(["ab", "c", "cb"].map((prompt) => live.hits(prompt))).toEqual([2, 1, 1]);
});

test("a block that was to begin as a copy of a part of a stored block is not copied to if the stored block replaces it", () => {
  // At most 3 of the 4 tokens may be hits, so that the last block would be copied; its content is stored already.
  const rules = { partial: "copy", "match-limit": "l-1", publish: "allocation" };
  const live = new LiveCache({ index: "block-trie", blockTokens: 2, rules });
  live.run("abcd");
  const [first, last] = [...live.cache.index.blocks()].sort((a, b) => a - b);
  const sequence = live.arrive("abcd", { output: "xyz" });
  expect(live.step()).toEqual([]);
  expect([...sequence.table.subarray(0, 2)]).toEqual([first, last]);
});

test.each(["block-trie", "radix-tree"])("a %s drops a block with its descendants", (index) => {
  for (const place of [0, 1]) {
    const { cache } = served(["ABC", "ABD"], { index }).result;
    const path = new Int32Array(3);
    cache.index.match(Uint32Array.from([0, 1, 2]), 0, 3, path, { blocks: 0, absent: 0, evicted: 0 });
    cache.index.drop(path[place]);
    audit(cache, []);
    const { blockCount, entryCount, evictableBlocks } = cache.index;
    expect({ blockCount, entryCount, evictableBlocks }).toEqual({
      blockCount: place,
      entryCount: place,
      evictableBlocks: place,
    });
  }
});
