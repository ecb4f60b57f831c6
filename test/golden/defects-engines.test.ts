import { describe, expect, test } from "vitest";
import { evict } from "../../core/cache/operations.ts";
import { cacheReport } from "../../core/cache/report.ts";
import { InvariantError } from "../../core/errors.ts";
import { EventKind } from "../../core/log/events.ts";
import { allocatorRegistry } from "../../policies/registry.ts";
import { type LiveCache, type LiveConfig, liveAs } from "../support/live-cache.ts";

// Past bugs of the prefix caches of vLLM, SGLang, TGI, LightLLM and nano-vllm, each as a test that the same composition passes
// here. A letter is a token; a block is four tokens, or one where the system has pages of one token.
//
// Not applicable here:
//
//   vLLM v0, lazy heap     a heap that is cleaned up when it is fifty times as large as its live entries: there is no such heap
//   SGLang 4987            eviction from a host tier, which does not exist here; its counting is tested below
//   SGLang 18843, and the  LFU that never counted hits, and runs that were new after a split: in evictions.test.ts
//   nodes made by a split
//   TGI 2491, 2498, 2711   an assertion, a batch that the router dropped, and blocks for speculation: no bugs of the cache
//   TGI 3068               a property test: the laws are run over the same tree
//   LightLLM's estimate    a shared prefix counts once per request: an estimate of the scheduler
//   SGLang's HiCache,      other tiers, routers, image content
//   LMCache, Mooncake

const oneHash: NonNullable<LiveConfig["hash"]> = (lanes) => lanes.fill(7);

function evicted(live: LiveCache): string[] {
  const { kind, key } = live.log.columns();
  return [...key].filter((_, at) => kind[at] === EventKind.evict).map((content) => live.textOf(content));
}

const conserved = ({ cache }: LiveCache) => cache.freeBlocks + cache.index.evictableBlocks + cache.referencedBlocks;

describe("vLLM, v0", () => {
  test("12621: the value for no parent is no content's key, and the first content is a parent like any other", () => {
    for (const hash of [undefined, oneHash]) {
      const live = liveAs("vllm-v0", { rules: { collision: "compare" }, ...(hash && { hash }) });
      live.run("aaaax");
      live.run("aaaabbbbx");
      expect(live.hits("bbbbx")).toBe(0);
      expect(live.hits("aaaabbbby")).toBe(8);
    }
  });

  test("CVE-2025-25183, 15297: equal hashes are confirmed by comparing; trusting them is a rule", () => {
    for (const [collision, found] of [
      ["compare", 0],
      ["trust", 4],
    ] as const) {
      const live = liveAs("vllm-v0", { hash: oneHash, rules: { collision } });
      live.run("aaaax");
      expect(live.hits("bbbbx")).toBe(found);
    }
  });

  test("9501: of two requests of one step the second references the first one's blocks, and computes them, too", () => {
    const live = liveAs("vllm-v0");
    const both = ["aaaabbbbx", "aaaabbbby"].map((prompt) => live.arrive(prompt));
    const plan = live.plan();
    expect(plan.prefillTokens).toBe(18);
    expect(both[1].cachedTokens).toBe(0);
    expect(both[1].table.subarray(0, 2)).toEqual(both[0].table.subarray(0, 2));
  });

  test("a completely cached prompt computes its last token; the first versions count its last block as not cached", () => {
    const computed = ["vllm-v0", "vllm-v0@0.8"].map((preset) => {
      const live = liveAs(preset);
      live.run("aaaabbbb");
      live.arrive("aaaabbbb");
      return live.plan().items[0];
    });
    expect(computed[0]).toMatchObject({ from: 4, tokens: 4, generate: 1 });
    expect(computed[1]).toMatchObject({ from: 7, tokens: 1, generate: 1 });
  });
});

describe("vLLM, v1", () => {
  test("a request that does not fit has no side effects", () => {
    const live = liveAs("vllm", { blocks: 3 });
    live.run("aaaabbbb");
    const large = live.arrive("aaaaccccddddx");
    const before = live.state();
    live.step((context) => {
      expect(context.admit(large)).toBe(false);
    });
    expect(live.state()).toEqual(before);
    expect(live.cache.counters.evictedBlocks).toBe(0);
  });

  test("42656: blocks that can never match are allocated before cached ones are evicted", () => {
    const live = liveAs("vllm", { blocks: 4 });
    live.run("aaaabbbbx");
    live.run("ccccx");
    // Two blocks contained incomplete ends; three prefix blocks are cached.
    expect(live.cache.index.blockCount).toBe(3);
    expect(evicted(live)).toEqual([]);
    live.run("x");
    expect(evicted(live)).toEqual([]);
    // Before that change all were in one queue, and the oldest was allocated: an end, then a cached block.
    const before = liveAs("vllm", { blocks: 4, allocator: "block-queue", rules: { "free-queue": "single" } });
    before.run("aaaabbbbx");
    before.run("ccccx");
    before.run("x");
    expect(evicted(before)).toEqual(["aaaabbbb"]);
  });

  test("content in two blocks matches as long as one of them is cached", () => {
    const live = liveAs("vllm", { rules: { publish: "step" } });
    live.arrive("aaaax");
    live.arrive("aaaay");
    live.step();
    expect(live.cachedTexts()).toEqual(["aaaa", "aaaa"]);
    evict(live.cache, 1, live.now);
    expect(live.hits("aaaaz")).toBe(4);
    evict(live.cache, 1, live.now);
    expect(live.hits("aaaaz")).toBe(0);
  });

  test("16016: content of another tenant never matches, in the first block and in later ones", () => {
    const live = liveAs("vllm", { namespaces: true });
    live.run("aaaabbbbx", { namespace: 1 });
    expect([0, 1, 2].map((namespace) => live.hits("aaaabbbby", { namespace }))).toEqual([0, 8, 0]);
    live.run("aaaaccccx", { namespace: 2 });
    expect(live.hits("aaaabbbby", { namespace: 2 })).toBe(4);
  });

  test("25780: blocks that a request matches after a preemption are not counted as hits", () => {
    const live = liveAs("vllm");
    const only = live.arrive("aaaabbbbx", { output: "uvw" });
    live.step();
    live.step((context) => context.preempt(only, "recompute"));
    live.finish();
    expect(live.cache.counters).toMatchObject({ lookups: 1, lookupTokens: 9, hitTokens: 0, rehitTokens: 8 });
  });

  test("12077: idle blocks are neither free nor referenced", () => {
    const live = liveAs("vllm");
    live.run("aaaabbbbx");
    expect(live.cache).toMatchObject({ freeBlocks: 14, referencedBlocks: 0, availableBlocks: 16 });
  });

  test("40696: no hits because the shared prefix is shorter than a block, and the report states it", () => {
    const live = liveAs("vllm");
    for (let n = 0; n < 3; n++) expect(live.run("abc")).toBe(0);
    expect(cacheReport(live.cache.counters).missTokens).toMatchObject({ "shorter-than-block": 9, "never-seen": 0 });
  });
});

describe("SGLang", () => {
  const bySlot = (own: LiveConfig = {}) => liveAs("sglang", { blockTokens: 1, blocks: 64, ...own });

  test("4987: an eviction counts the slots that it frees, and stops at the requested number", () => {
    const live = bySlot();
    for (const letter of "abcd") live.run(letter.repeat(4));
    expect(evict(live.cache, 5, live.now)).toBe(8);
    expect(live.cache.freeBlocks).toBe(64 - 8);
    expect(live.cachedTexts().sort()).toEqual(["c", "cc", "ccc", "cccc", "d", "dd", "ddd", "dddd"]);
  });

  test.each([
    ["pages of one token", 1, {}],
    ["pages of four", 4, {}],
    ["slots for the longest output", 4, { reserve: "worst-case" }],
  ])("6888, 11970, sglang-jax 982: with %s every slot is released once", (_name, blockTokens, rules) => {
    const live = bySlot({ blockTokens, rules });
    live.arrive("abcdefg", { output: "uvwxyz", maxOutputTokens: 12 });
    live.arrive("abcdexx", { output: "uvwxyz", maxOutputTokens: 12 });
    while (!live.replica.isIdle) {
      live.step();
      expect(conserved(live)).toBe(64);
    }
    expect(live.cache.referencedBlocks).toBe(0);
    // The prompt and five of six output tokens; tokens that do not fill a page are not cached.
    const stored = blockTokens === 1 ? 12 + 7 : 3 + 2;
    expect(live.cache.index.blockCount).toBe(stored);
    expect(live.cache.freeBlocks).toBe(64 - stored);
    expect([...new Set(live.cache.freeList())].length).toBe(64 - stored);
  });

  test("6888: a request whose output is shorter than reserved releases all reserved slots", () => {
    const live = bySlot({ blockTokens: 4, rules: { reserve: "worst-case" } });
    live.arrive("abcdefg", { output: "uvwxyz", maxOutputTokens: 40 });
    const plan = live.plan();
    expect(live.cache.referencedBlocks).toBe(12);
    live.replica.commit(plan, { durationNs: 1, finished: [true] }, live.now);
    live.audit();
    expect(live.cache).toMatchObject({ referencedBlocks: 0, freeBlocks: 63 });
  });

  test("35270: evictable slots are counted once, regardless of the number of their users", () => {
    const live = bySlot();
    const [first] = ["aaaab", "aaaac"].map((prompt) => live.arrive(prompt, { output: "uvwxyz" }));
    live.step();
    const before = live.cache.index.evictableBlocks;
    live.step((context) => context.refuse(first, "given up"));
    expect([before, live.cache.index.evictableBlocks]).toEqual([0, 1]);
    expect(conserved(live)).toBe(64);
    live.finish();
    expect(live.cache.index.evictableBlocks).toBe(live.cache.index.blockCount);
    expect(live.cache.availableBlocks).toBe(64);
    // All of it can be evicted.
    evict(live.cache, 64, live.now);
    expect(live.cache.freeBlocks).toBe(64);
  });

  test("bytedance 508: a match inside a run references its beginning, and the rest is evictable", () => {
    const live = bySlot();
    live.run("abcdefgh");
    live.arrive("abcdxy", { output: "uvw" });
    live.step();
    expect(live.cache.index.evictableBlocks).toBe(4);
    evict(live.cache, 4, live.now);
    expect(evicted(live)).toEqual(["abcdefgh", "abcdefg", "abcdef", "abcde"]);
    expect(live.hits("abcdefgh")).toBe(4);
  });

  test("mini-sglang: partial uses of a prefix update its last use", () => {
    const live = liveAs("mini-sglang", { blockTokens: 1, rules: { publish: "finish" } });
    live.run("aaaabbbb");
    live.run("zzzz");
    // It uses the beginning of the first run, and caches no tokens.
    const passing = live.arrive("aaaay");
    live.step((context) => context.admit(passing));
    expect(passing.cachedTokens).toBe(4);
    live.step();
    evict(live.cache, 1, live.now);
    evict(live.cache, 1, live.now);
    expect(live.cachedTexts().sort()).not.toContain("zzzz");
    expect(live.hits("aaaax")).toBe(4);
  });
});

describe("TGI", () => {
  const tgi = (own: LiveConfig = {}) => liveAs("tgi", { blockTokens: 1, ...own });

  test("a refused admission evicts nothing", () => {
    const live = tgi();
    live.run("aaaabbbb");
    const before = live.state();
    const large = live.arrive("aaaa", { output: ".", maxOutputTokens: 14 });
    live.step((context) => {
      expect(context.admit(large)).toBe(false);
    });
    expect(live.state()).toEqual(before);
  });

  test("2489: a block does not match before it is computed", () => {
    const live = tgi({ blocks: 32 });
    live.arrive("aaaabbbb", { output: "uvw" });
    live.step();
    expect(live.hits("aaaabbbb")).toBe(0);
    live.finish();
    expect(live.hits("aaaabbbb")).toBe(7);
  });

  test("3067: a prompt that ends at the end of a node matches up to its end, not to its parent's", () => {
    const live = tgi({ blocks: 64 });
    for (const prompt of ["abcd", "abcdef", "abcdefgh", "abcdxy"]) live.run(prompt);
    expect(["abcd", "abcdef", "abcdefgh", "abcdxy"].map((prompt) => live.hits(prompt))).toEqual([3, 5, 7, 5]);
  });

  test("3067: children of a partially matching node do not match", () => {
    const live = tgi({ blocks: 64 });
    live.run("abcd");
    live.run("abcdef");
    const asking = live.arrive("abefgh");
    live.step((context) => context.admit(asking));
    expect(asking.cachedTokens).toBe(2);
    live.finish();
    expect(["abef", "abcdef", "ef"].map((prompt) => live.hits(prompt))).toEqual([3, 5, 0]);
  });

  test("a rollback publishes nothing", () => {
    for (const publish of ["allocation", "step", "chunk", "finish"]) {
      const live = liveAs("tgi", { rules: { publish, reserve: "grow" } });
      live.run("aaaa");
      const before = live.cachedTexts();
      live.arrive("aaaabbbbcccc");
      live.arrive("ddddeeee");
      const plan = live.plan();
      expect(plan.count).toBe(2);
      live.replica.rollback(plan, live.now);
      live.audit();
      expect(live.cachedTexts()).toEqual(before);
      expect(live.cache.referencedBlocks).toBe(0);
      expect(live.hits("aaaabbbbcccc")).toBe(4);
      live.finish();
      expect(live.hits("aaaabbbbcccc")).toBe(11);
    }
  });

  test("an admission that is dropped before its step publishes nothing", () => {
    const live = liveAs("tgi");
    const dropped = live.arrive("aaaabbbb", { output: "uvw" });
    const plan = live.plan((context) => {
      expect(context.admit(dropped)).toBe(true);
      context.refuse(dropped, "over the step's budget");
    });
    expect(plan.isEmpty).toBe(true);
    expect(live.cachedTexts()).toEqual([]);
    expect(live.cache.freeBlocks).toBe(16);
  });
});

describe("LightLLM", () => {
  test("an allocation of more slots than are free fails instead of returning fewer", () => {
    for (const name of ["token", "token-contiguous"]) {
      const allocator = allocatorRegistry.get(name).create(4);
      expect(() => allocator.allocate(new Int32Array(5), 0, 5)).toThrow(InvariantError);
    }
    const live = liveAs("lightllm", { blockTokens: 1, blocks: 8 });
    const large = live.arrive("abcdefghi");
    live.step((context) => {
      expect(context.admit(large)).toBe(false);
    });
    expect(live.cache.freeBlocks).toBe(8);
  });

  test("the allocator allocates the lowest slots, scattered; contiguous slots, as its comment states, are another allocator", () => {
    const next = (name: string) => {
      const allocator = allocatorRegistry.get(name).create(10);
      const table = new Int32Array(6);
      allocator.allocate(table, 0, 6);
      allocator.release(Int32Array.of(3, 1), 0, 2);
      allocator.allocate(table, 0, 2);
      return [...table.subarray(0, 2)];
    };
    expect(next("token")).toEqual([1, 3]);
    expect(next("token-contiguous")).toEqual([6, 7]);
  });

  test("a lookup without a match has no side effects, and the root is never a victim", () => {
    const live = liveAs("lightllm", { blockTokens: 1 });
    for (let n = 0; n < 3; n++) expect(live.hits("zzzz")).toBe(0);
    expect(evict(live.cache, 4, live.now)).toBe(0);
    live.run("aaaa");
    const before = live.state();
    for (let n = 0; n < 3; n++) live.hits("zzzz");
    expect(live.state()).toEqual(before);
    expect(evict(live.cache, 9, live.now)).toBe(4);
    expect(evict(live.cache, 1, live.now)).toBe(0);
    live.run("bbbb");
    expect(live.hits("bbbbx")).toBe(4);
  });
});

describe("nano-vllm", () => {
  test("9fa256a: an idle block matches a second and a third time", () => {
    const live = liveAs("nano-vllm");
    expect(Array.from({ length: 4 }, () => live.run("aaaabbbbx"))).toEqual([0, 8, 8, 8]);
    expect(live.cachedTexts()).toEqual(["aaaa", "aaaabbbb"]);
  });

  test("the last block is never looked up", () => {
    const live = liveAs("nano-vllm");
    expect([live.run("aaaabbbb"), live.run("aaaabbbb")]).toEqual([0, 4]);
  });
});
