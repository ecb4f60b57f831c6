import { expect, test } from "vitest";
import { invariantOf } from "../../conformance/invariants.ts";
import { runCase } from "../../conformance/run.ts";
import { caseOf } from "./cases.ts";

test.each([
  ["no block is lost", "conserved"],
  ["No blocks leak.", "conserved"],
  ["no leaks", "conserved"],
  ["free + cached + held = all blocks", "conserved"],
  ["free + allocated + cached == num_blocks", "conserved"],
  ["free_blocks + used_blocks == total", "conserved"],
  ["total = free + in use", "conserved"],
  ["every block is free, in the trie or allocated", "conserved"],
  ["all blocks are accounted for", "conserved"],
  ["the number of blocks is conserved", "conserved"],
  ["conservation of blocks", "conserved"],
  ["no block is used twice", "unique"],
  ["no block has two owners", "unique"],
  ["no slot is in two allocations", "unique"],
  ["no block is handed out twice", "unique"],
  ["no two live allocations share a non-prefix slot", "unique"],
  ["a block is never both free and allocated", "unique"],
  ["non-prefix blocks are disjoint between allocations", "unique"],
  ["slots are unique", "unique"],
  ["slots of different allocations do not overlap", "unique"],
  ["the free list has no duplicates", "unique"],
  ["blocks in use are never in the free list", "unique"],
  ["requests never share blocks beyond the common prefix", "unique"],
  ["a prefix hit holds the same tokens", "same text"],
  ["the blocks of a hit hold the tokens of the prompt", "same text"],
  ["allocations with the same prefix share the same blocks", "same text"],
  ["prefix_len <= prompt_len", "bounded"],
  ["prefix_len never exceeds the prompt", "bounded"],
  ["prefix_len is a multiple of block_size", "bounded"],
  ["the number of slots equals the total tokens", "sized"],
  ["after all are freed all blocks are free or cached", "released"],
  ["all blocks are free after everything is released", "released"],
  ["once every request is freed, free + cached == total", "released"],
  ["after all requests are freed, no block is held", "released"],
  ["ref counts equal the number of holders", "counted"],
  ["ref_count is never negative", "counted"],
  ["block 0 is never handed out", "reserved"],
])("%s: %s", (sentence, means) => {
  expect(invariantOf(sentence)).toBe(means);
});

test.each([
  "every block is purple",
  "no block missing is free",
  "blocks are not unique",
  "no block is free",
  "no block is never lost",
  "a block may be lost",
  "free + cached + held > all blocks",
  "free + cached = held",
  "free - held = all blocks",
  "free + all blocks = held",
  "free + held + purple = all blocks",
  "two blocks are never free",
  "a block is used by more than one request",
  "after all requests are freed, no block is free",
  "after all requests are freed, free = 0",
  "hits hold other tokens",
  "no hit holds the same tokens",
  "prompt_len <= prefix_len",
  "prefix_len > prompt_len",
  "prefix_len <= 2",
  "",
])("%j is not known", (sentence) => {
  expect(invariantOf(sentence)).toBeUndefined();
});

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

test("requests that need no block of their own are not admitted for ever", () => {
  expect(run(["no block is lost"], { free_modes: ["all", "subset"] })).toEqual({ verdict: "passed" });
});

test("an invariant that is not known makes the case skipped, and is named", () => {
  expect(run(["no block is lost", "every block is purple"])).toEqual({
    verdict: "skipped",
    why: 'op 1 (property): the invariant "every block is purple" is not known',
    op: 1,
  });
  expect(run([])).toEqual({ verdict: "skipped", why: "expects nothing" });
  expect(run(["reserved blocks are never handed out"]).verdict).toBe("skipped");
  expect(run(["reserved blocks are never handed out"], { reserved_blocks: [0] }).verdict).toBe("passed");
});

test("prompts of thousands of tokens are checked in a moment", () => {
  const long = { num_blocks: 40_000, vocab: 2, data_len: 10_000, prefill_len: [5000, 10_000], iterations: 2 };
  expect(run(["no block is lost"], long)).toEqual({ verdict: "passed" });
});
