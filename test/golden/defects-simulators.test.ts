import { describe, expect, test } from "vitest";
import { cacheReport } from "../../core/cache/report.ts";
import { EventKind } from "../../core/log/events.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { LiveCache as Live } from "../support/live-cache.ts";

// Present and past counting errors of other KV cache simulators, each as a test that kvlab passes. A letter is a token.

const evictedOf = (live: Live) => {
  const { kind, key } = live.log.columns();
  return [...key].filter((_, at) => kind[at] === EventKind.evict).map((content) => live.textOf(content));
};

const byLastUse = ["lru", "fifo", "lfu", "slru", "lru-deepest", "priority", "retention"];

describe("llm-d-inference-sim", () => {
  test.each(byLastUse)("704: of a chain of three in a cache of three the third is evicted, under %s", (eviction) => {
    for (const index of ["hash-table", "block-trie", "radix-tree"]) {
      const live = new Live({ index, eviction, blocks: 3, blockTokens: 1 });
      live.run("123");
      live.run("4");
      expect(evictedOf(live)).toEqual(["123"]);
      expect(live.hits("123")).toBe(2);
    }
  });

  test("704: whatever the policy, a tree evicts the end of a chain", () => {
    for (const { name } of evictionRegistry.all.filter((policy) => !policy.offline && !policy.unlimited)) {
      for (const index of ["block-trie", "radix-tree"]) {
        const live = new Live({ index, eviction: name, blocks: 3, blockTokens: 1 });
        live.run("123");
        live.run("4");
        expect(evictedOf(live)).toEqual(["123"]);
      }
    }
  });

  test("701: blocks past a hole of the prefix are not hits", () => {
    const live = new Live({ blocks: 3, blockTokens: 1, rules: { "free-order": "forward" } });
    live.run("123");
    live.run("4");
    // The first one was evicted; the second and third are cached, and of no use.
    expect(live.cachedTexts().sort()).toEqual(["12", "123", "4"]);
    expect(live.run("123")).toBe(0);
    const { hitRatio, missTokens } = cacheReport(live.cache.counters);
    expect(hitRatio.token).toBe(0);
    expect(hitRatio.anyResidentBlock).toBe(2 / 7);
    expect(missTokens).toMatchObject({ evicted: 1, "past-hole": 2 });
  });
});

describe.each(["hash-table", "block-trie", "radix-tree"])("with a %s", (index) => {
  test("LLMServingSim 49: a hit counts once per request, regardless of the number of chunks of its prompt", () => {
    const live = new Live({ index });
    live.run("aaaabbbb");
    const chunked = live.arrive("aaaabbbbccccdddd");
    live.step((context) => context.admit(chunked, 3));
    while (live.replica.running.length > 0) live.step((context) => context.schedule(chunked, 3));
    expect(live.cache.counters).toMatchObject({ lookups: 2, lookupTokens: 24, hitTokens: 8, rehitTokens: 0 });
  });

  test("Dynamo 13188: reuse is not capped at the chunk size", () => {
    const live = new Live({ index });
    live.run("aaaabbbbcccc");
    const chunked = live.arrive("aaaabbbbccccdddd");
    const plan = live.plan((context) => context.admit(chunked, 2));
    expect(chunked.cachedTokens).toBe(12);
    expect(plan.items[0]).toMatchObject({ from: 12, tokens: 2 });
  });

  test.each(["allocation", "step", "chunk", "finish"])(
    "BLIS 196: a prompt computed in chunks that end inside blocks is stored as if computed at once, with publish=%s",
    (publish) => {
      const prompt = "abcdefghijklmnopq";
      const keysAfter = (chunk: number) => {
        const live = new Live({ index, rules: { publish } });
        const sequence = live.arrive(prompt);
        live.step((context) => context.admit(sequence, chunk));
        while (!live.replica.isIdle) live.step((context) => context.schedule(sequence, chunk));
        expect(live.hits(prompt)).toBe(16);
        return live.cachedTexts().sort();
      };
      const whole = keysAfter(17);
      expect(whole).toEqual(["abcd", "abcdefgh", "abcdefghijkl", "abcdefghijklmnop"]);
      for (const chunk of [1, 3, 5, 7]) expect(keysAfter(chunk)).toEqual(whole);
    },
  );
});
