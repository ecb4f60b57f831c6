import { beforeAll, describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "./golden-trace.ts";

// Laws cannot distinguish policies (MRU under the name of LRU satisfies them all), so the hits of each policy are compared with
// those of a naive cache here: an array whose first element is the next victim.

let trace: Trace;
/** Content ids of every prompt's blocks. */
let prompts: number[][];
/** By content id: the requests whose prompts contain it. */
let uses: Map<number, number[]>;
let capacities: number[];

beforeAll(async () => {
  trace = await goldenTrace();
  prompts = Array.from({ length: trace.requestCount }, (_, r) => [
    ...trace.keys.subarray(trace.keyStart[r], trace.keyStart[r + 1]),
  ]);
  uses = new Map(Array.from({ length: trace.distinctKeys }, (_, key) => [key, []]));
  prompts.forEach((prompt, r) => {
    for (const key of prompt) uses.get(key)!.push(r);
  });
  capacities = goldenCapacities(trace);
});

/** Removes one block from the cache that is not in `referenced`. */
type Evict = (cache: number[], referenced: Set<number>, now: number, capacity: number) => void;
/** The cache's new order after the blocks of a finished request are released. */
type Release = (cache: number[], prompt: number[]) => number[];

const first: Evict = (cache, referenced) => {
  const at = cache.findIndex((key) => !referenced.has(key));
  cache.splice(at, 1);
};

/** Hit blocks of every request, one request at a time; a prompt that does not fit is refused. */
function naiveHits(capacity: number, evict: Evict, release: Release): number[] {
  let cache: number[] = [];
  return prompts.map((prompt, now) => {
    if (prompt.length > capacity) return 0;
    const missing = prompt.filter((key) => !cache.includes(key));
    const firstMissing = prompt.findIndex((key) => !cache.includes(key));
    const referenced = new Set(prompt);
    while (cache.length + missing.length > capacity) evict(cache, referenced, now, capacity);
    cache = release(cache, prompt);
    return firstMissing < 0 ? prompt.length : firstMissing;
  });
}

const reversed = (blocks: number[], rules: Rules) => (rules["free-order"] === "forward" ? blocks : blocks.toReversed());

/** A request's blocks are moved to the end, whether they are new or not. */
const renewed =
  (rules: Rules): Release =>
  (cache, prompt) => [...cache.filter((key) => !prompt.includes(key)), ...reversed(prompt, rules)];

/** Blocks that were cached keep their places. */
const appended =
  (rules: Rules): Release =>
  (cache, prompt) => [
    ...cache,
    ...reversed(
      prompt.filter((key) => !cache.includes(key)),
      rules,
    ),
  ];

/** Evicts the block whose next use, by a request that fits, is latest; of those without another use, the deepest. */
const furthest: Evict = (cache, referenced, now, capacity) => {
  const fits = (r: number) => r > now && prompts[r].length <= capacity;
  const nextUse = (key: number) => uses.get(key)!.find(fits) ?? prompts.length;
  let worst = -1;
  let at = -1;
  cache.forEach((key, i) => {
    if (referenced.has(key)) return;
    const use = nextUse(key);
    if (use >= worst) [worst, at] = [use, i];
  });
  cache.splice(at, 1);
};

type Rules = Partial<Record<RuleName, RuleValue>>;
const forward: Rules = { "free-order": "forward" };
const ours = (policy: string, blocks: number, rules: Rules = {}, seed = 1) => [
  ...replayed(trace, { policy, blocks, rules, seed }).requests.hitBlocks,
];
const sum = (numbers: number[]) => numbers.reduce((total, n) => total + n, 0);

describe.each([
  ["deepest block first", {}],
  ["first block first", forward],
])("%s", (_name, rules: Rules) => {
  test("lru has the hits of an array of keys in order of use, request by request", () => {
    for (const blocks of capacities)
      expect(ours("lru", blocks, rules)).toEqual(naiveHits(blocks, first, renewed(rules)));
  });

  test("fifo has the hits of an array of keys in order of insertion, request by request", () => {
    for (const blocks of capacities)
      expect(ours("fifo", blocks, rules)).toEqual(naiveHits(blocks, first, appended(rules)));
  });
});

test("belady has the hits of a search of the rest of the trace for each victim", () => {
  // From the left, so that of equals the last in the array, a request's deepest block, is evicted.
  const release = appended(forward);
  for (const blocks of capacities.slice(0, 4))
    expect(sum(ours("belady", blocks))).toBe(sum(naiveHits(blocks, furthest, release)));
});

test("unbounded hits every block of an earlier prefix", () => {
  const hits = naiveHits(Number.POSITIVE_INFINITY, first, renewed({}));
  expect(ours("unbounded", 1)).toEqual(hits);
  expect(ours("lru", trace.distinctKeys)).toEqual(hits);
});

test("random has, over many seeds, the mean hits of uniformly drawn victims", () => {
  const blocks = capacities[2];
  let state = 1;
  const draw = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const uniform: Evict = (cache, referenced) => {
    const idle = cache.filter((key) => !referenced.has(key));
    cache.splice(cache.indexOf(idle[draw(idle.length)]), 1);
  };
  const seeds = Array.from({ length: 20 }, (_, i) => i + 1);
  const drawn = seeds.map(() => sum(naiveHits(blocks, uniform, appended({}))));
  const counted = seeds.map((seed) => sum(ours("random", blocks, {}, seed)));
  const mean = (numbers: number[]) => sum(numbers) / numbers.length;
  const deviation = (numbers: number[]) =>
    Math.sqrt(sum(numbers.map((n) => (n - mean(numbers)) ** 2)) / (numbers.length - 1));
  // Both means are of 20 draws: four standard errors of their difference.
  const error = Math.hypot(deviation(drawn), deviation(counted)) / Math.sqrt(seeds.length);
  expect(Math.abs(mean(drawn) - mean(counted))).toBeLessThan(4 * error);
  expect(new Set(counted).size).toBeGreaterThan(10);
});

// The counts themselves, so that no change is missed.
test.each(evictionRegistry.all.map(({ name }) => name))("%s has its golden counts", (policy) => {
  expect(capacities.map((blocks) => sum(ours(policy, blocks))).join(" ")).toBe(goldenHits[policy]);
});
