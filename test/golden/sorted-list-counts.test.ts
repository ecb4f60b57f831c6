import { beforeAll, expect, test } from "vitest";
import type { Trace } from "../../core/trace/trace.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "./golden-trace.ts";

// Hits of each policy with the index `sorted-list`, compared with a naive list of keys and with a hash table that also stores
// equal content once.

let trace: Trace;
/** Content ids of every prompt's blocks. */
let prompts: number[][];
let capacities: number[];

beforeAll(async () => {
  trace = await goldenTrace();
  prompts = Array.from({ length: trace.requestCount }, (_, r) => [
    ...trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]),
  ]);
  capacities = goldenCapacities(trace);
});

const hitsOf = (index: string, policy: string, blocks: number) => [
  ...replayed(trace, { index, policy, blocks, rules: { duplicates: "swap" } }).requests.hitBlocks,
];
const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0);

/**
 * Hit blocks of every request: a list of keys whose first unreferenced element is the next victim. The blocks past the
 * hits are allocated before equal content past a hole is found and kept instead of them.
 */
function naiveHits(capacity: number, renews: boolean): number[] {
  let cache: number[] = [];
  return prompts.map((prompt) => {
    if (prompt.length > capacity) return 0;
    const firstMissing = prompt.findIndex((key) => !cache.includes(key));
    const hits = firstMissing < 0 ? prompt.length : firstMissing;
    const referenced = new Set(prompt.slice(0, hits));
    while (cache.length + prompt.length - hits > capacity) {
      cache.splice(
        cache.findIndex((key) => !referenced.has(key)),
        1,
      );
    }
    const old = new Set(cache);
    const moved = prompt.filter((key) => renews || !old.has(key)).toReversed();
    cache = [...cache.filter((key) => !moved.includes(key)), ...moved];
    return hits;
  });
}

test.each([
  ["lru", true],
  ["fifo", false],
] as const)("%s has the hits of a list of keys, request by request", (policy, renews) => {
  for (const blocks of capacities) expect(hitsOf("sorted-list", policy, blocks)).toEqual(naiveHits(blocks, renews));
});

test.each(evictionRegistry.all.map(({ name }) => name))(
  "%s has the hits of a hash table without duplicates",
  (policy) => {
    for (const blocks of capacities)
      expect(hitsOf("sorted-list", policy, blocks)).toEqual(hitsOf("hash-table", policy, blocks));
  },
);

/** Where no block is cached past a hole, the counts are those of every index (`goldenHits`). */
const golden: Readonly<Record<string, string>> = {
  ...goldenHits,
  "2q": "545 2966 4094 5049 5587",
  "cost-aware": "366 2299 3193 5188 6161",
  fifo: "518 1807 2841 4530 5409",
  gdsf: "403 2707 3556 5294 6044",
  hyperbolic: "572 2399 3613 5379 6156",
  mru: "482 1256 1882 3217 4828",
  random: "336 1088 1556 3187 4656",
  "random-leaf": "389 1665 2693 4377 5664",
  "s3-fifo": "617 3256 4358 5353 5966",
  "w-tinylfu": "539 2984 4440 5367 6062",
  "workload-aware": "562 2147 3479 5138 6147",
};

test.each(evictionRegistry.all.map(({ name }) => name))("%s has its golden counts with a sorted list", (policy) => {
  expect(capacities.map((blocks) => sum(hitsOf("sorted-list", policy, blocks))).join(" ")).toBe(golden[policy]);
});
