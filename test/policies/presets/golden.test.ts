import { describe, expect, test } from "vitest";
import { type ReplayConfig, replayTrace } from "../../../core/replica/replay.ts";
import { blockQueue } from "../../../policies/allocator/block-queue.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import { type Naive, NaiveNothing, NaivePrefixes, NaiveQueue, NaiveTrie, type Served } from "./naive.ts";
import { NaiveRadix } from "./naive-runs.ts";
import { NaiveSglang, NaiveTgi } from "./naive-trees.ts";
import { everyPreset, presetNamed } from "./presets.ts";
import { talks, talkTrace } from "./talk.ts";

const trace = talkTrace();
const capacities = [2048, 5120, 24_576];

const naives: Record<string, (size: number, blocks: number) => Naive> = {
  lightllm: (_, blocks) => new NaiveRadix("lightllm", blocks),
  lmdeploy: (size, blocks) => new NaiveTrie("lmdeploy", size, blocks),
  "mini-sglang": (_, blocks) => new NaiveRadix("mini-sglang", blocks),
  "nano-vllm": (size, blocks) => new NaiveQueue("nano-vllm", size, blocks),
  "prefix-pool": (size, blocks) => new NaivePrefixes("prefix-pool", size, blocks),
  "prefix-trie": (size, blocks) => new NaiveTrie("prefix-trie", size, blocks),
  roseinfer: (size, blocks) => new NaivePrefixes("roseinfer", size, blocks),
  sglang: (_, blocks) => new NaiveSglang("sglang", blocks),
  "sglang@2501": (_, blocks) => new NaiveSglang("sglang@2501", blocks),
  tgi: (_, blocks) => new NaiveTgi(blocks),
  "tgi-simple": (size, blocks) => new NaiveNothing(size, blocks),
  "trt-llm": (size, blocks) => new NaiveTrie("trt-llm", size, blocks),
  turbomind: (size, blocks) => new NaiveTrie("turbomind", size, blocks),
  vllm: (size, blocks) => new NaiveQueue("vllm", size, blocks),
  "vllm@0.19": (size, blocks) => new NaiveQueue("vllm@0.19", size, blocks),
  "vllm-v0": (size, blocks) => new NaiveQueue("vllm-v0", size, blocks),
  "vllm-v0@0.8": (size, blocks) => new NaiveQueue("vllm-v0@0.8", size, blocks),
};

/** The outcome of each request in a cache of `capacity` tokens, and the evicted content. */
function replay(name: string, capacity: number, own: Partial<ReplayConfig> = {}) {
  const { index, eviction, allocator, rules, blockTokens: usual } = presetNamed(name);
  const { blockTokens = usual } = own;
  const blocks = capacity / blockTokens;
  const parts = { index, eviction, allocator, scheduler: schedulerRegistry.get("naive") };
  const config = {
    ...parts,
    blocks,
    seed: 1,
    audit: capacity < 10_000,
    ...own,
    blockTokens,
    rules: { ...rules, ...own.rules },
  };
  const { requests, cache } = replayTrace(trace, config);
  const served = talks.map((_, r) => ({
    hitTokens: requests.hitTokens[r],
    hitBlocks: requests.hitBlocks[r],
    refused: requests.refused[r] === 1,
  }));
  return { served, evicted: cache.counters.evictedBlocks };
}

/** Hit tokens, hit blocks, evicted blocks, refused requests. */
function totals({ served, evicted }: ReturnType<typeof replay>): string {
  const sum = (of: (one: Served) => number) => served.reduce((total, one) => total + of(one), 0);
  const refused = served.filter((one) => one.refused).length;
  return `${sum((one) => one.hitTokens)} ${sum((one) => one.hitBlocks)} ${evicted} ${refused}`;
}

/** The totals at 2048, 5120 and 24576 tokens. */
const golden: Record<string, readonly string[]> = {
  lightllm: ["2704 2704 20618 2", "6715 6715 19969 0", "17274 17274 0 0"],
  lmdeploy: ["2560 40 302 2", "6272 98 290 0", "16256 254 0 0"],
  "mini-sglang": ["2816 2816 20506 2", "6715 6715 19969 0", "17274 17274 0 0"],
  "nano-vllm": ["1280 5 67 2", "4096 16 72 0", "13056 51 0 0"],
  "prefix-pool": ["2336 146 344 2", "5568 348 18 0", "5856 366 0 0"],
  "prefix-trie": ["2688 168 319 2", "5568 348 18 0", "5856 366 0 0"],
  roseinfer: ["369 6 338 2", "2369 38 348 0", "6753 109 0 0"],
  sglang: ["2816 2816 20505 2", "6715 6715 19969 0", "17274 17274 0 0"],
  "sglang@2501": ["2816 2816 20505 2", "6715 6715 20068 0", "17274 17274 0 0"],
  tgi: ["2624 2627 14079 4", "6454 6459 17175 0", "16063 16073 0 0"],
  "tgi-simple": ["0 0 0 4", "0 0 0 0", "0 0 0 0"],
  "trt-llm": ["2761 83 650 2", "6715 204 623 0", "17274 525 0 0"],
  turbomind: ["2586 40 302 2", "6280 98 290 0", "16264 254 0 0"],
  vllm: ["2768 173 1262 2", "6624 414 1227 0", "17056 1066 0 0"],
  "vllm@0.19": ["2752 172 1266 2", "6624 414 1233 0", "17056 1066 0 0"],
  "vllm-v0": ["2768 173 1259 2", "6624 414 1209 0", "17056 1066 0 0"],
  "vllm-v0@0.8": ["2783 174 1259 2", "6669 417 1209 0", "17131 1071 0 0"],
};

describe.each(everyPreset)("%s", (name, { blockTokens }) => {
  test.each(capacities.map((capacity, at) => [capacity, at] as const))("in %d tokens", (capacity, at) => {
    const naive = naives[name](blockTokens, capacity / blockTokens);
    const served = talks.map((talk) => naive.serve(talk));
    const seen = replay(name, capacity);
    expect(seen).toEqual({ served, evicted: naive.evicted });
    expect(totals(seen)).toBe(golden[name][at]);
  });
});

describe("these presets are equivalent when requests are served one after the other", () => {
  test.each(capacities)("in %d tokens", (capacity) => {
    const same = (a: ReturnType<typeof replay>, b: ReturnType<typeof replay>) => expect(a).toEqual(b);
    // The same cache with another scheduler, but for its versions' differences.
    const mini = { "node-match": "split", "evict-amount": "missing", duplicates: "swap" };
    same(replay("mini-sglang", capacity), replay("sglang", capacity, { rules: mini }));
    same(replay("mini-sglang", capacity), replay("sglang@2501", capacity, { rules: mini }));
    // No other request runs, so that the only difference is that an output is a separate run.
    same(replay("lightllm", capacity), replay("mini-sglang", capacity, { rules: { publish: "finish" } }));
    // A queue by last use, and a tree's leaves by last use: the end of a request's blocks is always evicted first.
    same(replay("turbomind", capacity, { rules: { partial: "none" } }), replay("lmdeploy", capacity));
    // The only differences are one queue, the newest of two duplicates, and larger blocks.
    const queue = { allocator: blockQueue, blockTokens: 256 };
    const nano = { duplicates: "newest", "free-queue": "single" };
    same(replay("nano-vllm", capacity), replay("vllm", capacity, { ...queue, rules: nano }));
    const single = { allocator: blockQueue, rules: { "free-queue": "single" } };
    same(replay("vllm@0.19", capacity), replay("vllm", capacity, single));
  });
});

test("the trace has long, block-aligned, repeated and marked prompts of three tenants", () => {
  const lengths = talks.map(({ prompt }) => prompt.length);
  for (const size of [16, 32, 64, 256])
    expect(lengths.filter((length) => length % size === 0).length).toBeGreaterThan(2);
  expect(Math.max(...lengths)).toBeGreaterThan(capacities[0]);
  expect(new Set(talks.map(({ space }) => space)).size).toBe(3);
  expect(new Set(talks.map(({ session }) => session)).size).toBe(11);
  expect(new Set(talks.map(({ marked }) => marked)).size).toBe(6);
});
