import { expect, test } from "vitest";
import { isKnownInvariant } from "../../conformance/invariants.ts";
import { runCase } from "../../conformance/run.ts";
import { caseOf } from "./cases.ts";

test.each([
  "no block is lost",
  "No blocks leak.",
  "free + cached + held = all blocks",
  "len(free) + len(used) == num_blocks - 1",
  "every block is free, in the trie or allocated",
  "all blocks are returned after remove_all",
  "the number of blocks is conserved",
  "no block has two owners",
  "no two live allocations share a non-prefix slot",
  "a block is never both free and allocated",
  "slots of different allocations never overlap",
  "the free list has no duplicates",
  "a hit holds the tokens asked for",
  "allocations with the same prefix share the same blocks",
  "prefix_len <= prompt_len",
  "prefix_len is a multiple of block_size",
  "once every request is freed, free + cached == total",
  "ref_count is never negative",
])("%s", (sentence) => {
  expect(isKnownInvariant(sentence)).toBe(true);
});

test.each(["every block is purple", "free blocks are contiguous", "eviction is by least recent use", "", "blocks"])(
  "not %s",
  (sentence) => {
    expect(isKnownInvariant(sentence)).toBe(false);
  },
);
const config = { num_blocks: 20, vocab: 1, data_len: 1, prefill_len: [1, 2], decode_len: [0, 1], iterations: 5 };
const run = (invariants: unknown, changes: object = {}) =>
  runCase(
    caseOf(
      JSON.stringify({
        id: "p",
        family: "property",
        title: "made here",
        config: { ...config, ...changes },
        ops: [{ op: "property", invariants }],
      }),
    ),
  );

test("requests that need no block are not admitted endlessly", () => {
  expect(run(["no block is lost"], { free_modes: ["all", "subset"] })).toEqual({ verdict: "passed" });
});

test("an unknown invariant makes the case skipped, and is named", () => {
  expect(run(["no block is lost", "every block is purple"])).toEqual({
    verdict: "skipped",
    why: 'op 1 (property): the invariant "every block is purple" is not known',
    op: 1,
  });
  expect(run([])).toEqual({ verdict: "skipped", why: "has no expectations" });
  expect(run(["reserved blocks are never handed out"]).verdict).toBe("skipped");
  expect(run(["reserved blocks are never handed out"], { reserved_blocks: [0] }).verdict).toBe("passed");
});

test("prompts of thousands of tokens are checked quickly", () => {
  const long = { num_blocks: 40_000, vocab: 2, data_len: 10_000, prefill_len: [5000, 10_000], iterations: 2 };
  expect(run(["no block is lost"], long)).toEqual({ verdict: "passed" });
});
