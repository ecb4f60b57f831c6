import { describe, expect, test } from "vitest";
import { Miss } from "../../../core/log/miss-reasons.ts";
import { LiveCache, type LiveConfig } from "../../support/live-cache.ts";

// A letter is a token, a block is four.

const pool = (own: LiveConfig = {}) => new LiveCache({ index: "prefix-pool", eviction: "fifo", ...own });
const trie = (own: LiveConfig = {}) => new LiveCache({ index: "prefix-trie", eviction: "fifo", ...own });
const mark = (markedTokens: number) => ({ markedTokens });

describe.each([
  ["prefix-pool", pool],
  ["prefix-trie", trie],
])("%s", (_name, start) => {
  test.each([
    [3, 0],
    [4, 4],
    [5, 4],
    [7, 4],
    [8, 8],
    [9, 8],
  ])("a mark after %d tokens stores and finds %d of them", (marked, found) => {
    const cache = start();
    cache.run("abcdefghij", mark(marked));
    expect(cache.cache.index.blockCount).toBe(found / 4);
    expect(cache.hits("abcdefghij", mark(marked))).toBe(found);
    // Other requests with the same prefix and other continuations.
    expect(cache.run("abcdefghxy", mark(marked))).toBe(found);
    expect(cache.cache.freeBlocks).toBe(16 - found / 4);
  });

  test("a prefix is a hit after the step that computes it; within that step every request computes it", () => {
    const cache = start();
    const both = ["abcdx", "abcdy"].map((prompt) => cache.arrive(prompt, { ...mark(4), output: "uvw" }));
    cache.step();
    expect(both.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 0]);
    // Later requests share it.
    expect(both[1].table[0]).toBe(both[0].table[0]);
    const third = cache.arrive("abcdz", mark(4));
    cache.step();
    expect(third.cachedTokens).toBe(4);
    cache.finish();
    expect(cache.cache.index.blockCount).toBe(1);
  });

  test("a prefix is a hit only after it is computed completely, not chunk by chunk", () => {
    const cache = start();
    cache.arrive("abcdefghi", mark(8));
    cache.step((context) => context.admit(context.firstWaiting!, 5));
    expect(cache.hits("abcdefghx", mark(8))).toBe(0);
    cache.step((context) => context.schedule(context.running[0], 3));
    expect(cache.hits("abcdefghx", mark(8))).toBe(8);
    cache.finish();
  });

  test("unmarked blocks are computed again for every request, and are missed as evicted", () => {
    const cache = start();
    cache.run("abcdefgh");
    expect(cache.cache.counters.missTokens[Miss.evicted]).toBe(0);
    cache.run("abcdefgh");
    expect(cache.cache.counters.missTokens[Miss.evicted]).toBe(8);
  });

  test("unmarked tokens are neither stored nor matched", () => {
    const cache = start();
    cache.run("abcdefgh");
    expect(cache.cache.index.blockCount).toBe(0);
    cache.run("abcdefgh", mark(4));
    expect(cache.hits("abcdefgh")).toBe(0);
    expect(cache.hits("abcdefgh", mark(4))).toBe(4);
  });

  test("a prompt that equals its prefix and is cached completely recomputes its last token", () => {
    const cache = start();
    cache.run("abcdefgh", mark(8));
    cache.arrive("abcdefgh", mark(8));
    expect(cache.plan().items[0]).toMatchObject({ from: 7, tokens: 1 });
  });

  test("marked prefixes work in a trace of content ids", () => {
    const cache = start({ unitTokens: 4 });
    cache.run("abcdefgh", mark(8));
    expect(cache.run("abcdefghijkl", mark(8))).toBe(8);
    expect(cache.cache.index.blockCount).toBe(2);
  });

  test("an idle prefix is evicted when running requests need blocks", () => {
    const cache = start({ blocks: 3 });
    cache.run("aaaabbbb", mark(8));
    cache.run("ccccddddeeee");
    expect(cache.cache.index.blockCount).toBe(0);
    expect(cache.cache.counters).toMatchObject({ refusedRequests: 0, preemptions: 0 });
  });
});

describe("a prefix pool", () => {
  test("shares no block between a prefix and its extension", () => {
    const cache = pool();
    cache.run("abcdefghx", mark(4));
    expect(cache.run("abcdefghy", mark(8))).toBe(0);
    expect(cache.cache.index).toMatchObject({ entryCount: 2, blockCount: 3 });
    expect(cache.hits("abcdefghz", mark(4))).toBe(4);
    expect(cache.hits("abcdefghz", mark(8))).toBe(8);
    expect(cache.hits("abcdefghijklz", mark(12))).toBe(0);
  });

  test("drops the oldest prefix for a new one beyond its cap, regardless of use", () => {
    const cache = pool({ rules: { "prefix-blocks": 3 } });
    cache.run("aaaabbbbx", mark(8));
    cache.run("ccccx", mark(4));
    cache.run("aaaabbbby", mark(8));
    cache.run("ddddx", mark(4));
    expect(cache.cachedTexts()).toEqual(expect.arrayContaining(["cccc", "dddd"]));
    expect(cache.cache.index).toMatchObject({ entryCount: 2, blockCount: 2 });
  });

  test("drops as many prefixes as necessary, and none at its cap", () => {
    const cache = pool({ rules: { "prefix-blocks": 3 } });
    for (const letter of "abc") cache.run(`${letter.repeat(4)}x`, mark(4));
    expect(cache.cache.index.blockCount).toBe(3);
    cache.run("ddddeeeex", mark(8));
    expect(cache.cachedTexts().sort()).toEqual(["cccc", "dddd", "ddddeeee"]);
  });

  test("does not store a prefix that is larger than its cap, and serves its requests", () => {
    const cache = pool({ rules: { "prefix-blocks": 1 } });
    expect(["x", "y"].map((end) => cache.run(`aaaabbbb${end}`, mark(8)))).toEqual([0, 0]);
    expect(cache.cache.index.blockCount).toBe(0);
    expect(cache.cache.freeBlocks).toBe(16);
  });

  test("has no prefixes at a cap of 0", () => {
    const cache = pool({ rules: { "prefix-blocks": 0 } });
    expect(["x", "y"].map((end) => cache.run(`aaaa${end}`, mark(4)))).toEqual([0, 0]);
    expect(cache.cache.index.blockCount).toBe(0);
  });

  test("beyond its cap drops idle prefixes before referenced ones", () => {
    const cache = pool({ rules: { "prefix-blocks": 2 } });
    const first = cache.arrive("aaaax", { ...mark(4), output: "uvwxyz" });
    cache.step();
    cache.arrive("bbbbx", mark(4));
    cache.step();
    cache.arrive("ccccx", mark(4));
    cache.step();
    expect(cache.cachedTexts().sort()).toEqual(["aaaa", "cccc"]);
    expect(first.blockCount).toBeGreaterThan(0);
    cache.finish();
  });
});

describe("a prefix trie", () => {
  test("shares blocks, and matches the longest prefix within the mark", () => {
    const cache = trie();
    expect(cache.run("abcdefghx", mark(4))).toBe(0);
    expect(cache.run("abcdefghy", mark(8))).toBe(4);
    expect(cache.cache.index.blockCount).toBe(2);
    expect(cache.run("abcdefghijklmnopq", mark(16))).toBe(8);
    expect(cache.cache.index.blockCount).toBe(4);
    expect([4, 8, 12, 16].map((marked) => cache.hits("abcdefghijklmnopz", mark(marked)))).toEqual([4, 8, 12, 16]);
  });

  test("branches where prefixes diverge", () => {
    const cache = trie();
    cache.run("abcdefghx", mark(8));
    expect(cache.run("abcdxxxxx", mark(8))).toBe(4);
    expect(cache.run("yyyyefghx", mark(8))).toBe(0);
    expect(cache.cache.index.blockCount).toBe(5);
    expect(cache.hits("abcdefghx", mark(8))).toBe(8);
  });

  test("evicts the end of a prefix before its beginning, which other prefixes share", () => {
    const cache = trie({ blocks: 4 });
    cache.run("aaaabbbbx", mark(8));
    cache.run("aaaaccccx", mark(8));
    // Three blocks are cached and one is free. Two more evict the end of "aaaabbbb", the oldest block that no block extends.
    cache.run("ddddeeee");
    expect(cache.hits("aaaabbbbx", mark(8))).toBe(4);
    expect(cache.hits("aaaaccccx", mark(8))).toBe(8);
  });
});
