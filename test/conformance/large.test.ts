import { expect, test } from "vitest";
import { runCase } from "../../conformance/run.ts";
import { caseOf } from "./cases.ts";

type Op = readonly [name: string, inputs?: object, expect?: object];

function verdictOf(family: string, config: object, ops: readonly Op[]) {
  const all = ops.map(([op, inputs = {}, expected = {}]) => ({ op, ...inputs, expect: expected }));
  return runCase(caseOf(JSON.stringify({ id: "large", family, title: "made here", config, ops: all })));
}

const passed = { verdict: "passed" };
const tokens = { range: [0, 100_000] };

test("a radix tree stores and evicts 100,000 tokens", () => {
  const ops: Op[] = [
    ["insert", { tokens }, { matched_tokens: 0 }],
    ["insert", { tokens: { concat: [{ range: [0, 50_000] }, [7, 7, 7]] } }, { matched_tokens: 50_000 }],
    ["lock", { handle: "h", tokens: { range: [0, 60_000] } }],
    ["state", {}, { total: 100_003, protected: 60_000 }],
    ["unlock", { handle: "h" }],
    ["match", { tokens }],
    ["evict", { n: 100_003 }, { evicted_count: 100_003 }],
  ];
  expect(verdictOf("radix-tree-locks", { page_size: 1 }, ops)).toEqual(passed);
  expect(verdictOf("radix-tree-locks", { page_size: 1, evict_unit: "node" }, ops)).toEqual(passed);
});

test("a radix trie stores and evicts 100,000 tokens", () => {
  const values = Array.from({ length: 100_000 }, (_, i) => i);
  const ops: Op[] = [
    ["insert", { tokens, values }, { matched_tokens: 0 }],
    ["find", { tokens: { range: [0, 99_000] } }, { node_is_root: false, same_node_as: 1 }],
    ["find", { tokens }, { values }],
    ["evict", { n: 100_000 }, { evicted: values }],
  ];
  expect(verdictOf("radix-trie", {}, ops)).toEqual(passed);
});

test("a request of a block pool can compute 300,000 tokens at once", () => {
  const ops: Op[] = [
    ["lookup", { req: "a", tokens: [1, 2, 3] }],
    ["allocate", { req: "a", num_new_tokens: 3 }, { new_block_count: 1 }],
    ["set_computed", { req: "a", n: 3 }],
    ["append", { req: "a", tokens: { range: [0, 300_000] } }],
    ["allocate", { req: "a", num_new_tokens: 300_000 }, { new_block_count: 18_750 }],
  ];
  expect(verdictOf("block-pool", { num_blocks: 20_000, block_size: 16 }, ops)).toEqual(passed);
});

test.each([
  [
    "radix-block-allocator",
    { num_blocks: 100_001, block_size: 1 },
    ["allocate", { req: "a", total_tokens: 100_000, prompt: tokens }, { prefix_len: 0 }],
  ],
  ["block-trie-demo", { num_blocks: 100_000, block_size: 2 }, ["demo_allocate", { req: "a", tokens }]],
  ["explicit-prefix-pool", { block_size: 1 }, ["add", { tokens }, { length: 100_000 }]],
  ["hash-allocator-v0", { num_blocks: 100_000, block_size: 1 }, ["chain", { id: "A", tokens }, { refused: false }]],
  ["kv-events", { page_size: 1 }, ["insert", { tokens }]],
  [
    "block-reuse-partial",
    { num_blocks: 100_000, block_size: 2 },
    ["add", { req: "a", tokens }, { prepopulated_tokens: 0 }],
  ],
  ["block-trie", { num_blocks: 100_000, block_size: 2 }, ["add", { req: "a", tokens }]],
  [
    "whole-prompt-lru",
    { block_size: 1 },
    ["request", { id: "a", prompt: "A", prompt_tokens: 100_000 }, { hit: false }],
  ],
] as [string, object, Op][])(
  "%s supports 100,000 tokens",
  (family, config, op) => {
    expect(verdictOf(family, config, [op]).verdict).not.toBe("failed");
  },
  20_000,
);
