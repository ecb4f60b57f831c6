import { expect, test } from "vitest";
import { evictionRegistry } from "../../../policies/registry.ts";
import { letterTrace } from "../../support/letters.ts";
import { Overlap } from "../../support/overlap.ts";
import { replayed } from "../../support/replays.ts";

// Past bugs, each as the smallest case that showed it. A letter is a token, a block is four.

test("a request that is removed from a step preempts those that reference its blocks, and no others", () => {
  for (const leaver of ["first", "second"] as const) {
    const overlap = new Overlap("block-trie", {}, 4);
    const first = overlap.arrive("abcd");
    const second = overlap.arrive("abcd");
    overlap.step((context) => {
      context.admit(first, 1);
      context.admit(second, 2);
    });
    overlap.step((context) => {
      context.schedule(first);
      // It references the first one's block, which the same step computes.
      context.schedule(second);
      context.preempt({ first, second }[leaver], "recompute");
    });
    expect(overlap.replica.cache.counters.preemptions).toBe(leaver === "first" ? 2 : 1);
  }
});

test("a block that was cached before is not regarded as one that this step computes", () => {
  const overlap = new Overlap("block-trie", { partial: "copy", "match-limit": "l-1" }, 4);
  overlap.arrive("abcd");
  overlap.finish();
  const sequences = ["abcd", "abcd", "abxx"].map((prompt) => overlap.arrive(prompt));
  overlap.step();
  // The first of them uses the cached block instead of its own.
  expect(sequences.map((sequence) => sequence.cachedTokens)).toEqual([3, 3, 2]);
});

test("a partial match uses a computed block if the best one is only being computed", () => {
  const overlap = new Overlap("block-trie", { partial: "copy" }, 4);
  overlap.arrive("abcdeeee");
  overlap.finish();
  const sequences = ["abxy", "abxz"].map((prompt) => overlap.arrive(prompt));
  overlap.step();
  expect(sequences.map((sequence) => sequence.cachedTokens)).toEqual([2, 2]);
});

test("only a leaf is reused in place, whatever is evictable", () => {
  for (const victims of ["leaf", "any"]) {
    const overlap = new Overlap("block-trie", { partial: "steal", victims }, 4);
    for (const prompt of ["abcdeeeeffff", "abxx"]) {
      overlap.arrive(prompt);
      overlap.finish();
    }
    expect(overlap.hits("abcdeeeeffff")).toBe(12);
    // The end of the first prompt is a leaf.
    overlap.arrive("abcdeeeeffgg");
    overlap.finish();
    expect(overlap.hits("abcdeeeeffff")).toBe(10);
  }
});

test("descendants of a victim are evicted, too", () => {
  const rules = { victims: "any", "free-order": "forward" };
  const { report, cache } = replayed(letterTrace(["ABC", "D"]), {
    index: "block-trie",
    policy: "fifo",
    rules,
    blocks: 3,
  });
  expect(report).toMatchObject({ insertedBlocks: 4, evictedBlocks: 3 });
  expect(cache.index.blockCount).toBe(1);
});

test.each(evictionRegistry.all.map((plugin) => plugin.name))("an unlimited cache grows under %s", (policy) => {
  const letters = Array.from({ length: 3000 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join("");
  for (const index of ["hash-table", "block-trie", "radix-tree"]) {
    const { report } = replayed(letterTrace([letters, letters]), { index, policy, blocks: undefined });
    expect(report.hitBlocks).toBe(3000);
  }
});
