import { expect, test } from "vitest";
import { audit } from "../../../core/cache/audit.ts";
import type { EvictionPlugin } from "../../../core/plugins/index.ts";
import { evictionRegistry } from "../../../policies/registry.ts";
import { blockTokens, letterTrace, served } from "../../support/letters.ts";
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
