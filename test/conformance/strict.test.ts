import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BlockNames } from "../../conformance/block-names.ts";
import { tgiCache } from "../../conformance/caches/tgi.ts";
import { lmdeployTrie } from "../../conformance/caches/tries.ts";
import { trtLlmCache } from "../../conformance/caches/trt-llm.ts";
import { vllmV0Cache } from "../../conformance/caches/vllm.ts";
import { runCase } from "../../conformance/run.ts";
import { lmdeploy } from "../../policies/presets/lmdeploy.ts";
import { tgi } from "../../policies/presets/tgi.ts";
import { trtLlm } from "../../policies/presets/trt-llm.ts";
import { vllmV0 } from "../../policies/presets/vllm-v0.ts";
import { caseOf } from "./cases.ts";

const run = (family: string, config: object, ops: readonly object[], more: object = {}) =>
  runCase(caseOf(JSON.stringify({ id: "s", family, title: "t", config, ops, ...more })));

const pool = { block_size: 4, num_blocks: 10 };
const insertOf = (tokens: number) => [
  { op: "lookup", req: 1, tokens: { range: [0, tokens] } },
  { op: "allocate", req: 1, num_new_tokens: tokens, expect: { refused: false } },
];
const state = (expected: object) => ({ op: "state", expect: expected });

describe("blocks are the same one to one", () => {
  test("a set of blocks that a case has not named before restricts later comparisons", () => {
    const both = (hashed: number[]) =>
      run("block-pool", pool, [...insertOf(9), state({ hashed: [1, 2] }), state({ hashed })]);
    expect(both([2, 1]).verdict).toBe("passed");
    expect(both([7, 8]).verdict).toBe("failed");
    expect(both([1, 8]).verdict).toBe("failed");
  });

  test("an id of a set stands for one of its blocks, and no other id does", () => {
    const names = new BlockNames();
    expect(names.sameSet([1, 2, 3], [10, 11, 12])).toBe(true);
    expect(names.same(1, 19)).toBe(false);
    expect(names.same(4, 10)).toBe(false);
    expect(names.ours(1)).toBeUndefined();
    expect(names.same(2, 10)).toBe(true);
    expect(names.sameSet([1, 4], [12, 14])).toBe(true);
    expect([1, 2, 3, 4].map((id) => names.ours(id))).toEqual([12, 10, 11, 14]);
    expect([10, 11, 19].map((block) => names.theirs(block))).toEqual(["2", "3", "(19)"]);
  });

  test("sets that contradict each other change nothing", () => {
    const names = new BlockNames();
    names.sameSet([1, 2, 3], [10, 11, 12]);
    expect(names.sameSet([1, 2], [10, 13])).toBe(false);
    expect(names.sameSet([1, 1], [10, 11])).toBe(false);
    expect(names.sameSet([1, 2, 3], [12, 11, 10])).toBe(true);
    expect(names.same(3, 10)).toBe(true);
  });

  test("sets are equal as long as a one-to-one map exists", () => {
    const set = (size: number) => fc.uniqueArray(fc.nat(size - 1), { maxLength: 3 });
    fc.assert(
      fc.property(fc.array(fc.tuple(set(4), set(8)), { maxLength: 8 }), (claims) => {
        const names = new BlockNames();
        let left = maps;
        for (const [theirs, ours] of claims) {
          const agreeing = left.filter((map) => isImage(map, theirs, ours));
          expect(names.sameSet(theirs, ours)).toBe(agreeing.length > 0);
          if (agreeing.length > 0) left = agreeing;
        }
      }),
    );
  });
});

/** All maps of 4 ids to 4 of 8 blocks. */
const maps = [0, 1, 2, 3].reduce<number[][]>(
  (all) => all.flatMap((map) => [0, 1, 2, 3, 4, 5, 6, 7].filter((b) => !map.includes(b)).map((b) => [...map, b])),
  [[]],
);

const isImage = (map: readonly number[], theirs: readonly number[], ours: readonly number[]) =>
  theirs.length === ours.length && theirs.every((id) => ours.includes(map[id]));

describe("values by block", () => {
  const refCounts = (...counts: object[]) =>
    run("block-pool", pool, [...insertOf(5), ...counts.map((ref_counts) => state({ ref_counts }))]).verdict;

  test("blocks without a known id are identified by their values", () => {
    expect(refCounts({ 1: 1, 2: 1 })).toBe("passed");
    expect(refCounts({ 1: 1, 2: 1, 3: 0 })).toBe("passed");
    expect(refCounts({ 1: 1, 2: 1, 3: 1 })).toBe("failed");
    expect(refCounts({ 1: 2 })).toBe("failed");
  });

  test("if equally many blocks have a value as are named, the ids stand for these blocks from now on", () => {
    expect(refCounts({ 1: 1, 2: 1 }, { 1: 1, 7: 0 })).toBe("passed");
    expect(refCounts({ 1: 1, 2: 1 }, { 3: 1 })).toBe("failed");
    expect(refCounts({ 1: 1, 2: 1 }, { 1: 0 })).toBe("failed");
  });
});

test("an unknown field makes the case skipped, and remarks do not", () => {
  const empty = [state({ num_free: 10 })];
  for (const more of [{ setup: [] }, { expect: { num_free: 3 } }, { capacity: 7 }]) {
    const { verdict, why } = run("block-pool", pool, empty, more);
    expect(verdict).toBe("skipped");
    expect(why).toContain(`unknown field "${Object.keys(more)[0]}" of the case; known: basis, `);
  }
  const all = { source: { repo: "a/b" }, basis: "transcribed", notes: "as upstream", comment: "." };
  expect(run("block-pool", pool, empty, all).verdict).toBe("passed");
});

describe("numbers", () => {
  const order = (policy: string, nodes: readonly string[], evict_order: readonly string[]) =>
    runCase(
      caseOf(
        `{"id": "s", "family": "eviction-order", "title": "t", "config": {}, "ops": [{"op": "order",
          "policy": "${policy}", "nodes": [${nodes.join()}], "expect": {"evict_order": ${JSON.stringify(evict_order)}}}]}`,
      ),
    );
  const lru = (last: string) => order("lru", ['{"id": "a", "last": 1}', `{"id": "b", "last": ${last}}`], ["a", "b"]);
  const prios = (a: number, b: number) =>
    order("priority", [`{"id": "a", "last": 1, "prio": ${a}}`, `{"id": "b", "last": 2, "prio": ${b}}`], ["b", "a"]);

  test("are finite", () => {
    expect(lru("1.5").verdict).toBe("passed");
    expect(lru("1e999")).toMatchObject({
      verdict: "skipped",
      why: expect.stringContaining('last of a node is "Infinity", expected a finite number'),
    });
  });

  test("that are priorities are integers, and are clamped to 0 to 99", () => {
    expect(prios(2, 1).verdict).toBe("passed");
    expect(prios(1.9, 1.1).verdict).toBe("skipped");
    expect(prios(500, 50).verdict).toBe("passed");
    expect(prios(200, 100).verdict).toBe("failed");
    expect(prios(0, -5).verdict).toBe("failed");
  });
});

describe("relations between stored pages", () => {
  const verdict = (relation: string) =>
    run("kv-events", { page_size: 1 }, [
      { op: "insert", tokens: [1, 2, 3] },
      { op: "events", expect: { stored_blocks: 3, relations: [relation] } },
    ]).verdict;

  test("a negative index counts from the end", () => {
    expect(verdict("hash[-1] == hash[2]")).toBe("passed");
    expect(verdict("parent[-1] == hash[-2]")).toBe("passed");
    expect(verdict("hash[-1] == hash[1]")).toBe("failed");
    expect(verdict("hash[-4] != hash[1]")).toBe("skipped");
  });

  test("unknown operators are not ignored", () => {
    for (const term of ["hash-1", "-hash[1]", "!hash[1]", "hash[+1]", "hash[.1]", "hash[1.0]", "hash[1]-0", "hash[1:]"])
      expect(verdict(`${term} == hash[1]`), term).toBe("skipped");
    expect(verdict("hash[1] >= hash[1]")).toBe("skipped");
    expect(verdict("hash[1] === hash[1]")).toBe("passed");
    expect(verdict("parent-hash[1] == block_0.hash")).toBe("passed");
  });
});

test("evictions count tokens, also if each page has one label", () => {
  const evicted = (n: number, values?: readonly string[]) =>
    run("radix-tree-locks", { page_size: 4 }, [
      { op: "insert", tokens: { range: [0, 8] }, values, expect: { matched_tokens: 0 } },
      { op: "evict", n, expect: { evicted_count: 8, ...(values && { evicted: values }) } },
    ]);
  expect(evicted(4, ["p", "q"])).toEqual({ verdict: "passed" });
  expect(evicted(8)).toEqual({ verdict: "passed" });
  expect(evicted(0).verdict).toBe("failed");
});

describe("whole prompts", () => {
  const evictedBy = (first: unknown, second: unknown, expected: object) =>
    run("whole-prompt-lru", { block_size: 4, max_entries: 1 }, [
      { op: "request", id: 1, prompt: first, prompt_tokens: 5 },
      { op: "request", id: 2, prompt: second, prompt_tokens: 5, expect: expected },
    ]);

  test("are named by their name in the case", () => {
    expect(evictedBy(1, 2, { evicted: [1] })).toEqual({ verdict: "passed" });
    expect(evictedBy("a", "b", { evicted: ["a"] })).toEqual({ verdict: "passed" });
    expect(evictedBy(1, 2, { evicted: ["1"] }).verdict).toBe("failed");
  });

  test("of equal length do not match each other, even if one name is a prefix of the other", () => {
    expect(evictedBy(1, 12, { hit: false, evicted: [1] })).toEqual({ verdict: "passed" });
    expect(evictedBy("a", "ab", { hit: false })).toEqual({ verdict: "passed" });
  });
});

test("cases run on the presets, but for the rules of the queue where a case calls the allocator alone", () => {
  const allocatorAlone = { "full-hit": "rewrite-last", "node-match": "split", "failed-admission": "unchanged" };
  const presets = [
    [tgiCache(1, 4), tgi, allocatorAlone],
    [vllmV0Cache(4, 4), vllmV0, { "full-hit": "rewrite-last", "match-limit": "all" }],
    [trtLlmCache(4, 4, {}), trtLlm, {}],
    [lmdeployTrie(4, 4), lmdeploy, {}],
  ] as const;
  for (const [parts, { name, index, eviction, allocator, rules }, own] of presets) {
    const { blockTokens } = parts;
    expect(parts, name).toEqual({ index, eviction, allocator, rules: { ...rules, ...own }, blockTokens, blocks: 4 });
  }
});
