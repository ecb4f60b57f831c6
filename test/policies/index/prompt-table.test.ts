import { describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../../core/plugins/rules.ts";
import { LiveCache, type LiveConfig } from "../../support/live-cache.ts";

// A letter is a token, a block is four.

type Own = Partial<Record<RuleName, RuleValue>>;

/** roseinfer's rules: logits are stored with the prompt. */
const table = (rules: Own = {}, own: LiveConfig = {}) =>
  new LiveCache({ index: "prompt-table", rules: { "full-hit": "stored-logits", ...rules }, ...own });

describe.each([
  ["tokens", 1],
  ["content ids of a block each", 4],
  ["content ids of half a block each", 2],
])("a prompt table, of a trace of %s", (_name, unitTokens) => {
  const own = { unitTokens };

  test.each([
    ["k blocks", "abcdefgh", 2],
    ["k blocks and a token", "abcdefghi", 3],
    ["one token", "a", 1],
  ])("finds a prompt of %s again to its last token, and computes nothing", (_length, prompt, blocks) => {
    const cache = table({}, own);
    expect(cache.run(prompt)).toBe(0);
    expect(cache.cache.index).toMatchObject({ entryCount: 1, blockCount: blocks });
    expect(cache.hits(prompt)).toBe(prompt.length);
    const again = cache.arrive(prompt);
    const plan = cache.plan();
    expect(plan.items[0]).toMatchObject({ from: prompt.length, tokens: 0, generate: 1 });
    expect(again.cachedTokens).toBe(prompt.length);
    cache.replica.commit(plan, { durationNs: 1 }, cache.now);
    cache.audit();
    expect(cache.cache.counters).toMatchObject({ hitTokens: prompt.length, lookupTokens: 2 * prompt.length });
    expect(cache.cache.freeBlocks).toBe(16 - blocks);
  });

  test("recomputes the last token if no logits are stored", () => {
    for (const prompt of ["abcdefgh", "abcdefghi"]) {
      const cache = table({ "full-hit": "recompute-last" }, own);
      cache.run(prompt);
      cache.arrive(prompt);
      expect(cache.plan().items[0]).toMatchObject({ from: prompt.length - 1, tokens: 1 });
    }
  });

  test("matches neither an extension of a stored prompt nor its beginning", () => {
    const cache = table({}, own);
    cache.run("abcdefgh");
    expect(["abcd", "abcdefg", "abcdefghijkl", "abcdefghi"].map((prompt) => cache.hits(prompt))).toEqual([0, 0, 0, 0]);
    cache.run("abcd");
    cache.run("abcdefghi");
    // The two are separate entries: they share no block.
    expect(cache.cache.index).toMatchObject({ entryCount: 3, blockCount: 2 + 1 + 3 });
    expect(["abcd", "abcdefgh", "abcdefghi"].map((prompt) => cache.hits(prompt))).toEqual([4, 8, 9]);
  });
});

describe("two overlapping requests with the same prompt", () => {
  test("compute it twice and store it once; full blocks are replaced by the stored ones", () => {
    const cache = table();
    const both = ["abcdefgh", "abcdefgh"].map((prompt) => cache.arrive(prompt, { output: "xyz" }));
    cache.step();
    expect(both.map(({ cachedTokens }) => cachedTokens)).toEqual([0, 0]);
    expect(cache.cache.index).toMatchObject({ entryCount: 1, blockCount: 2 });
    expect(both[1].table.subarray(0, 2)).toEqual(both[0].table.subarray(0, 2));
    cache.finish();
    expect(cache.cache.freeBlocks).toBe(14);
  });

  test("have a private partial last block each, to which their output is appended", () => {
    const cache = table();
    const both = ["abcdef", "abcdef"].map((prompt) => cache.arrive(prompt, { output: "xyz" }));
    cache.step();
    const [first, second] = both.map(({ table }) => [...table.subarray(0, 2)]);
    expect(second[0]).toBe(first[0]);
    expect(second[1]).not.toBe(first[1]);
    cache.finish();
    expect(cache.cache.counters.copiedBlocks).toBe(0);
    expect(cache.cache.freeBlocks).toBe(14);
  });
});

describe("the partial last block", () => {
  test("is not copied for the request that computed it", () => {
    const cache = table();
    cache.run("abcdef", { output: "uvwxyz" });
    expect(cache.cache.counters.copiedBlocks).toBe(0);
    expect(cache.hits("abcdef")).toBe(6);
  });

  test("is not copied if its reference count is 1", () => {
    const cache = table();
    for (const output of ["uvw", "xyz", "opqrst"]) cache.run("abcdef", { output });
    expect(cache.cache.counters).toMatchObject({ copiedBlocks: 0, hitTokens: 12 });
  });

  test("is copied before the first output token is written, if it is shared, and not earlier", () => {
    const cache = table();
    const first = cache.arrive("abcdef", { output: "uvwxyz" });
    cache.step();
    const second = cache.arrive("abcdef", { output: "opqrst" });
    // The stored logits determine its first output token.
    expect(cache.step()).toEqual([]);
    const tail = first.table[1];
    expect(second.table[1]).toBe(tail);
    expect(cache.step()).toEqual([{ source: tail, target: second.table[1] }]);
    expect(second.table[1]).not.toBe(tail);
    // The request that computed the block continues in it.
    expect(first.table[1]).toBe(tail);
    cache.finish();
    expect(cache.cache.counters.copiedBlocks).toBe(1);
    expect(cache.hits("abcdef")).toBe(6);
  });

  test("is copied for all but the last request that references it", () => {
    const cache = table();
    cache.run("abcdef");
    const all = Array.from({ length: 3 }, () => cache.arrive("abcdef", { output: "uvwx" }));
    cache.step();
    expect(new Set(all.map(({ table }) => table[1])).size).toBe(1);
    const copies = cache.step();
    expect(copies.map(({ target }) => target)).toEqual(all.slice(0, 2).map(({ table }) => table[1]));
    expect(new Set(all.map(({ table }) => table[1])).size).toBe(3);
    cache.finish();
    expect(cache.hits("abcdef")).toBe(6);
  });

  test("is never copied if prompts end at a block boundary", () => {
    const cache = table();
    cache.run("abcd");
    for (let n = 0; n < 3; n++) cache.arrive("abcd", { output: "uvwx" });
    cache.finish();
    expect(cache.cache.counters).toMatchObject({ copiedBlocks: 0, hitTokens: 12 });
  });

  test("needs a free block for its copy, without which its request is not admitted", () => {
    const cache = table({}, { blocks: 2 });
    const first = cache.arrive("abcdef", { output: "uv" });
    cache.step();
    const second = cache.arrive("abcdef", { output: "op" });
    cache.step((context) => context.admit(second));
    const before = cache.state();
    let isScheduled: boolean | undefined;
    cache.plan((context) => {
      isScheduled = context.schedule(second);
    });
    expect(isScheduled).toBe(false);
    expect(cache.state()).toEqual(before);
    // The first one continues without it. When it has finished, only the second one references the block.
    cache.step((context) => context.schedule(first));
    cache.step((context) => {
      isScheduled = context.schedule(second);
    });
    expect(isScheduled).toBe(true);
    expect(cache.cache.counters.copiedBlocks).toBe(0);
  });
});

describe("max-entries of a prompt table", () => {
  const served = (most: number, prompts: readonly string[]) => {
    const cache = table({ "max-entries": most });
    return { hits: prompts.map((prompt) => cache.run(prompt)), cache };
  };

  test("0: nothing is stored", () => {
    const { hits, cache } = served(0, ["abcde", "abcde", "abcde"]);
    expect(hits).toEqual([0, 0, 0]);
    expect(cache.cache.index.entryCount).toBe(0);
    expect(cache.cache.freeBlocks).toBe(16);
  });

  test("1: the most recent prompt is stored", () => {
    const { hits, cache } = served(1, ["aaaa", "aaaa", "bbbb", "aaaa"]);
    expect(hits).toEqual([0, 4, 0, 0]);
    expect(cache.cachedTexts()).toEqual(["aaaa"]);
    expect(cache.cache.freeBlocks).toBe(15);
  });

  test("2: the two most recently used prompts are stored", () => {
    const { hits } = served(2, ["aaaa", "bbbb", "aaaa", "cccc", "aaaa", "bbbb", "cccc"]);
    expect(hits).toEqual([0, 0, 4, 0, 4, 0, 0]);
  });

  test("idle entries are dropped first, then the oldest, whose blocks stay referenced", () => {
    const cache = table({ "max-entries": 2 });
    cache.run("aaaa");
    const second = cache.arrive("bbbb", { output: "wxyz" });
    cache.step();
    cache.arrive("cccc", { output: "wxyz" });
    cache.step();
    expect(cache.cachedTexts().sort()).toEqual(["bbbb", "cccc"]);
    const kept = second.table[0];
    cache.arrive("dddd", { output: "wxyz" });
    cache.step();
    expect(cache.cachedTexts().sort()).toEqual(["cccc", "dddd"]);
    expect(cache.cache.pool.refCountOf(kept)).toBe(1);
    expect(cache.hits("bbbb")).toBe(0);
    cache.finish();
    // Blocks of the two stored prompts; all others are free, also those of the dropped entries.
    expect(cache.cache.freeBlocks).toBe(14);
  });

  test("an entry dropped while referenced is stored again by the next request that computes it", () => {
    const cache = table({ "max-entries": 1 });
    cache.arrive("aaaa", { output: "wxyz" });
    cache.step();
    cache.arrive("bbbb", { output: "wxyz" });
    cache.step();
    expect(cache.cachedTexts()).toEqual(["bbbb"]);
    cache.arrive("aaaa", { output: "wxyz" });
    cache.step();
    expect(cache.cachedTexts()).toEqual(["aaaa"]);
    cache.finish();
    expect(cache.hits("aaaa")).toBe(4);
    expect(cache.cache.freeBlocks).toBe(15);
  });
});

test("a full prompt table evicts whole prompts, for blocks that running requests need", () => {
  const cache = table({}, { blocks: 4 });
  cache.run("aaaabbbb");
  cache.run("cccc");
  // Two more blocks: one is free, and both blocks of the older prompt are evicted.
  cache.run("ddddeeee");
  expect(cache.cachedTexts().sort()).toEqual(["cccc", "dddd", "ddddeeee"]);
  expect(cache.cache.counters.evictedBlocks).toBe(2);
  expect(cache.cache.freeBlocks).toBe(1);
});
