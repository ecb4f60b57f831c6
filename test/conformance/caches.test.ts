import { describe, expect, test } from "vitest";
import { DrivenCache, likePreset } from "../../conformance/caches/driven-cache.ts";
import type { Case } from "../../conformance/case.ts";
import { runCase } from "../../conformance/run.ts";
import { audit } from "../../core/cache/audit.ts";
import { seededRandom } from "../../core/random.ts";
import * as presets from "../../policies/presets/index.ts";
import { caseOf, casesIn, ownFolder } from "./cases.ts";

type Op = readonly [name: string, inputs?: object, expect?: object];

function made(family: string, config: object, ops: readonly Op[]): Case {
  const all = ops.map(([op, inputs = {}, expected = {}]) => ({ op, ...inputs, expect: expected }));
  return caseOf(JSON.stringify({ id: "made", family, title: "made here", config, ops: all }));
}

const verdictOf = (family: string, config: object, ops: readonly Op[]) => runCase(made(family, config, ops)).verdict;
const whyOf = (family: string, config: object, ops: readonly Op[]) => runCase(made(family, config, ops)).why;

describe("a case with an unknown setting or operation is skipped", () => {
  const lookup: Op = ["lookup", { req: "a", tokens: [1, 2, 3, 4, 5] }];
  const pool = { num_blocks: 4, block_size: 2 };

  test.each([
    ["block-pool", { ...pool, free_order: "by-moonlight" }, [lookup]],
    ["block-pool", { ...pool, publish: "never" }, [lookup]],
    ["block-pool", pool, [["allocate", { req: "a", num_new_tokens: 1 }]]],
    ["block-pool", pool, [lookup, ["set_computed", { req: "a", n: 1 }]]],
    ["block-pool", pool, [lookup, ["free", { req: "a" }], ["free", { req: "a" }]]],
    ["radix-tree-locks", { evict_unit: "half a node" }, [["state"]]],
    ["radix-tree-locks", {}, [["unlock", { handle: "h" }]]],
    ["radix-tree-locks", {}, [["insert", { tokens: [1, 2, 3], values: [1, 2] }]]],
    ["radix-block-allocator", { num_blocks: 4 }, [["allocate", { req: "a", total_tokens: 1, prompt: [1, 2] }]]],
    ["radix-block-allocator", { num_blocks: 4, free_list: "heap" }, [["state"]]],
    ["hash-allocator-v0", pool, [["free_chain", { id: "A" }]]],
    ["hash-allocator-v0", pool, [["chain", { id: "A", tokens: [1, 2] }, { first_block_equals: "the first" }]]],
    ["block-trie", pool, [["match", { req: "a" }]]],
    ["block-trie-demo", { ...pool, full_hit_allowed: false }, [["demo_free", { req: "a" }]]],
    ["block-trie-demo", { ...pool, block_ids: "a..z" }, [["demo_free", { req: "a" }]]],
    ["block-trie-demo-fixed", { block_size: 2 }, [["scenario", { num_blocks: 3, steps: ["dance"] }]]],
    ["block-trie-demo-fixed", { block_size: 2 }, [["scenario", { num_blocks: 3, steps: [{ op: "free", x: 1 }] }]]],
    ["explicit-prefix-pool", { block_size: 2 }, [["run_batch", { requests: ["p0"] }]]],
    ["whole-prompt-lru", { block_size: 2 }, [["decode", { id: "a", tokens: 1 }]]],
    ["block-reuse-partial", { ...pool, store: "at noon" }, [["release", { req: "a" }]]],
    ["partial-match", { block_size: 2 }, [["partial", { tokens: [1, 2, 3] }, { matched: 2 }]]],
    [
      "property",
      { num_blocks: 3, vocab: 2, data_len: 9, prefill_len: 4, decode_len: 4, iterations: 1e9 },
      [["property"]],
    ],
  ] as [string, object, Op[]][])("%s %j", (family, config, ops) => {
    expect(verdictOf(family, config, ops)).toBe("skipped");
  });
});

test("reading the free order has no side effects", () => {
  const config = { num_blocks: 6, block_size: 2, free_order: "all-to-tail" };
  const state: Op = ["state", {}, { free_order: [4, 5, 3, 2, 1, 0] }];
  const ops: Op[] = [
    ["lookup", { req: "a", tokens: [1, 2, 3, 4, 5, 6, 7] }],
    ["allocate", { req: "a", num_new_tokens: 7 }, { new_blocks: [0, 1, 2, 3] }],
    ["free", { req: "a" }],
  ];
  expect(verdictOf("block-pool", config, [...ops, state, state])).toBe("passed");
  const next: Op[] = [
    ["lookup", { req: "b", tokens: [9, 9, 9] }],
    ["allocate", { req: "b", num_new_tokens: 3 }],
  ];
  expect(whyOf("block-pool", config, [...ops, state, ...next, state])).toContain("free_order");
});

test("steps of the demo may be objects, lists or words", () => {
  const spellings = [
    [
      { op: "demo_allocate", req: "a", tokens: { range: [0, 4] } },
      { op: "demo_free", req: "a" },
      { op: "evict", n: 1 },
    ],
    [
      ["allocate", "a", [0, 1, 2, 3]],
      ["free", "a"],
      ["evict", 1],
    ],
    ["alloc(a, [0, 1, 2, 3])", "free(a)", "evict 1"],
  ];
  for (const steps of spellings) {
    const scenario: Op = ["scenario", { num_blocks: 4, steps }, { evicted: 2, evicted_first: [2], free_count: 3 }];
    expect(verdictOf("block-trie-demo-fixed", { block_size: 2, block_ids: "1..4" }, [scenario])).toBe("passed");
  }
});

test("a step with an unparsable list is skipped as unknown", () => {
  const scenario: Op = ["scenario", { num_blocks: 4, steps: ["allocate a [1,]"] }, { free_count: 3 }];
  expect(verdictOf("block-trie-demo-fixed", { block_size: 2 }, [scenario])).toBe("skipped");
});

test("relations between pages may be written in several ways, and wrong ones fail", () => {
  const verdict = (relations: unknown) =>
    verdictOf("kv-events", { page_size: 2 }, [
      ["insert", { tokens: [1, 2, 1, 2, 5, 6] }],
      ["events", {}, { relations }],
    ]);
  expect(verdict({ "parent[0]": null, "second.parent": "first", parent_of_2: "hash[1]", h0: "hashes[0]" })).toBe(
    "passed",
  );
  expect(verdict([["parent1", "is", "h0"], "block 0 differs from block 1", "parent of the last != none"])).toBe(
    "passed",
  );
  expect(verdict(["hash[0] == hash[1]"])).toBe("failed");
  expect(verdict(["parent[2] == hash[0]"])).toBe("failed");
  expect(verdict(["the moon is hash 0"])).toBe("skipped");
});

test("full hits and blocks that are reused in place leave the cache consistent, in every preset", () => {
  for (const preset of Object.values(presets)) {
    const driven = new DrivenCache(likePreset(preset, { blockTokens: 4, blocks: 24 }));
    const prompts = [
      [1, 2, 3, 4, 5, 6],
      [1, 2, 3, 4, 5, 6],
      [1, 2, 3, 9],
      [1, 2, 3, 4, 5, 6, 7, 8],
    ];
    for (const namespace of [undefined, "a tenant"]) {
      const sequences = prompts.map((prompt) => {
        const sequence = driven.arrive({ prompt, output: [7, 7, 7], namespace, markedTokens: 4 });
        expect(driven.cache.admit(sequence, prompt.length, driven.now), preset.name).toBe(true);
        driven.compute(sequence);
        return sequence;
      });
      audit(driven.cache, sequences);
      for (const sequence of sequences) driven.finish(sequence);
      audit(driven.cache, []);
    }
    const before = driven.cache.availableBlocks;
    expect(before, preset.name).toBe(24);
    const stored = driven.cache.index.blockCount;
    expect(driven.evict(stored).flat().toSorted(byNumber), preset.name).toHaveLength(stored);
    expect(driven.cache.freeBlocks, preset.name).toBe(24);
  }
});

test("random operations keep the cache consistent", () => {
  const random = seededRandom(20261121);
  const all = casesIn(ownFolder).filter(({ family }) => family !== "property");
  const verdicts = new Set<string>();
  for (let trial = 0; trial < 3000; trial++) {
    const worked = all[random.below(all.length)];
    const ops = Array.from({ length: worked.ops.length + random.below(10) }, () => {
      const op = worked.ops[random.below(worked.ops.length)];
      return random.below(3) > 0 ? { ...op, expect: {} } : op;
    });
    verdicts.add(runCase({ ...worked, ops }).verdict);
  }
  expect([...verdicts].sort()).toEqual(["failed", "passed", "skipped"]);
});

const byNumber = (a: number, b: number) => a - b;
