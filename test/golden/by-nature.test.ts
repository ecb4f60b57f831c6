import { expect, test } from "vitest";
import type { fourLanes } from "../../core/trace/content.ts";
import { TraceBuilder } from "../../core/trace/trace.ts";
import { Overlap } from "../support/overlap.ts";
import { type OwnConfig, replayed } from "../support/replays.ts";

// Inherent differences between indexes: the smallest traces that show them, as in docs/policies.md. A letter is a block of one
// token; the hits of each request are worked out there by hand.

function hits(prompts: string, blocks: number, own: OwnConfig): string {
  const builder = new TraceBuilder(1);
  for (const prompt of prompts.split(" ")) {
    const keys = [...prompt].map((letter) => letter.charCodeAt(0));
    builder.add({ arrivalNs: 0, inputTokens: keys.length, outputTokens: 1, keys });
  }
  return [...replayed(builder.take(), { ...own, blockTokens: 1, blocks }).requests.hitTokens].join(" ");
}

test("any victim or leaves only: FIFO evicts the head of a prefix, or its tail", () => {
  expect(hits("a ab c a", 2, { index: "hash-table", policy: "fifo" })).toBe("0 1 0 0");
  expect(hits("a ab c a", 2, { index: "block-trie", policy: "fifo" })).toBe("0 1 0 1");
  expect(hits("a ab c a", 2, { index: "radix-tree", policy: "fifo" })).toBe("0 1 0 1");
});

test("past a hole: a trie with victims=any evicts the blocks below it and can cache others, a hash table keeps them", () => {
  const any = { victims: "any" };
  expect(hits("a b ac dx b", 3, { index: "hash-table", policy: "fifo" })).toBe("0 0 1 0 0");
  expect(hits("a b ac dx b", 3, { index: "block-trie", policy: "fifo", rules: any })).toBe("0 0 1 0 1");
});

test("LRU, deepest block first, makes the same decisions in all three", () => {
  for (const prompts of ["a ab c a", "a b ac dx b", "ab c a", "abc abd ab e abd abc"])
    for (const blocks of [3, 4]) {
      const inHashTable = hits(prompts, blocks, { index: "hash-table" });
      for (const index of ["block-trie", "radix-tree"]) expect(hits(prompts, blocks, { index })).toBe(inHashTable);
    }
});

test("whole runs: one block is needed, and two are evicted", () => {
  expect(hits("ab c a", 2, { index: "radix-tree" })).toBe("0 0 1");
  expect(hits("ab c a", 2, { index: "radix-tree", rules: { "victim-unit": "node" } })).toBe("0 0 0");
});

test("a run is ordered by its end: the optimum evicts two blocks of it although only one has no further use", () => {
  const optimum = { policy: "belady" };
  expect(hits("a bx cx b", 3, { ...optimum, index: "block-trie" })).toBe("0 0 0 1");
  expect(hits("a bx cx b", 3, { ...optimum, index: "radix-tree" })).toBe("0 0 0 0");
  expect(hits("a bx cx b", 3, { ...optimum, index: "radix-tree", rules: { "victim-unit": "block" } })).toBe("0 0 0 1");
});

test("collisions with collision=trust: a hash table matches a block of another prefix, a tree does not leave its path", () => {
  // All contents that end with the same letter have the same hash.
  const hash: typeof fourLanes = (lanes, tokens, from, count) => lanes.fill(tokens[from + count - 1]);
  const trusting = { hash, rules: { collision: "trust" } };
  expect(hits("ac b bc", 9, { index: "hash-table", ...trusting })).toBe("0 0 2");
  expect(hits("ac b bc", 9, { index: "block-trie", ...trusting })).toBe("0 0 1");
  expect(hits("ac b bc", 9, { index: "radix-tree", ...trusting })).toBe("0 0 1");
  for (const index of ["hash-table", "block-trie", "radix-tree"])
    expect(hits("ac b bc", 9, { index, hash })).toBe("0 0 1");
});

test("output tokens: a tree stores nothing below a private copy of a block that another request references", () => {
  // Two requests with the same prompt overlap. The second one has a full hit, and recomputes its last token, in a
  // copy. Then it decodes; the prompt of a third request contains its output.
  const found = (index: string) => {
    const overlap = new Overlap(index, { "cache-generated": "true", duplicates: "swap" });
    overlap.arrive("a", "xyz");
    overlap.step();
    overlap.arrive("a", "pq");
    overlap.finish();
    return overlap.hits("ap");
  };
  expect(found("hash-table")).toBe(2);
  expect(found("block-trie")).toBe(1);
  expect(found("radix-tree")).toBe(1);
});
