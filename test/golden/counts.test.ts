import { beforeAll, describe, expect, test } from "vitest";
import type { RuleName, RuleValue } from "../../core/plugins/rules.ts";
import type { Trace } from "../../core/trace/trace.ts";
import { evictionRegistry } from "../../policies/registry.ts";
import { replayed } from "../support/replays.ts";
import { goldenCapacities, goldenHits, goldenTrace } from "./golden-trace.ts";

// Laws cannot tell one policy from another (MRU under the name of LRU keeps them all), so each policy's hits are counted
// a second time here, by a cache that is an array: first in the array, first to go.

let trace: Trace;
/** Content ids of every prompt's blocks. */
let prompts: number[][];
/** For each content id, the requests that have it in their prompt. */
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

/** Takes one block out of the cache, which holds the others than `held`, and returns nothing. */
type Evict = (cache: number[], held: Set<number>, now: number, capacity: number) => void;
/** Where the blocks of a request go when it ends: the cache's new order. */
type Release = (cache: number[], prompt: number[]) => number[];

const first: Evict = (cache, held) => {
  const at = cache.findIndex((key) => !held.has(key));
  cache.splice(at, 1);
};

/** Hit blocks of every request, one request at a time; a prompt that does not fit is refused. */
function naiveHits(capacity: number, evict: Evict, release: Release): number[] {
  let cache: number[] = [];
  return prompts.map((prompt, now) => {
    if (prompt.length > capacity) return 0;
    const missing = prompt.filter((key) => !cache.includes(key));
    const firstMissing = prompt.findIndex((key) => !cache.includes(key));
    const held = new Set(prompt);
    while (cache.length + missing.length > capacity) evict(cache, held, now, capacity);
    cache = release(cache, prompt);
    return firstMissing < 0 ? prompt.length : firstMissing;
  });
}

const reversed = (blocks: number[], rules: Rules) => (rules["free-order"] === "forward" ? blocks : blocks.toReversed());

/** A request's blocks go to the end, whether they are new or not. */
const renewed =
  (rules: Rules): Release =>
  (cache, prompt) => [...cache.filter((key) => !prompt.includes(key)), ...reversed(prompt, rules)];

/** Blocks that were there stay where they are. */
const appended =
  (rules: Rules): Release =>
  (cache, prompt) => [
    ...cache,
    ...reversed(
      prompt.filter((key) => !cache.includes(key)),
      rules,
    ),
  ];

/** The block that is asked for last, by a request that fits, goes; of those that nobody asks for again, the deepest. */
const furthest: Evict = (cache, held, now, capacity) => {
  const fits = (r: number) => r > now && prompts[r].length <= capacity;
  const nextUse = (key: number) => uses.get(key)!.find(fits) ?? prompts.length;
  let worst = -1;
  let at = -1;
  cache.forEach((key, i) => {
    if (held.has(key)) return;
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
  test("lru hits what an array of keys in order of use hits, request by request", () => {
    for (const blocks of capacities)
      expect(ours("lru", blocks, rules)).toEqual(naiveHits(blocks, first, renewed(rules)));
  });

  test("fifo hits what an array of keys in order of insertion hits, request by request", () => {
    for (const blocks of capacities)
      expect(ours("fifo", blocks, rules)).toEqual(naiveHits(blocks, first, appended(rules)));
  });
});

test("belady hits what searching the rest of the trace for each victim hits", () => {
  // From the left, so that of equals the last in the array, which is a request's deepest, goes.
  const release = appended(forward);
  for (const blocks of capacities.slice(0, 4))
    expect(sum(ours("belady", blocks))).toBe(sum(naiveHits(blocks, furthest, release)));
});

test("unbounded hits every block that an earlier prompt began with", () => {
  const hits = naiveHits(Number.POSITIVE_INFINITY, first, renewed({}));
  expect(ours("unbounded", 1)).toEqual(hits);
  expect(ours("lru", trace.distinctKeys)).toEqual(hits);
});

test("random hits, over many seeds, what drawing victims from a hat hits", () => {
  const blocks = capacities[2];
  let state = 1;
  const draw = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const hat: Evict = (cache, held) => {
    const idle = cache.filter((key) => !held.has(key));
    cache.splice(cache.indexOf(idle[draw(idle.length)]), 1);
  };
  const seeds = Array.from({ length: 20 }, (_, i) => i + 1);
  const drawn = seeds.map(() => sum(naiveHits(blocks, hat, appended({}))));
  const counted = seeds.map((seed) => sum(ours("random", blocks, {}, seed)));
  const mean = (numbers: number[]) => sum(numbers) / numbers.length;
  const deviation = (numbers: number[]) =>
    Math.sqrt(sum(numbers.map((n) => (n - mean(numbers)) ** 2)) / (numbers.length - 1));
  // Both means are of 20 draws: four standard errors of their difference.
  const error = Math.hypot(deviation(drawn), deviation(counted)) / Math.sqrt(seeds.length);
  expect(Math.abs(mean(drawn) - mean(counted))).toBeLessThan(4 * error);
  expect(new Set(counted).size).toBeGreaterThan(10);
});

// The figures themselves, so that no change goes unseen.
test.each(evictionRegistry.all.map(({ name }) => name))("%s has its golden counts", (policy) => {
  expect(capacities.map((blocks) => sum(ours(policy, blocks))).join(" ")).toBe(goldenHits[policy]);
});
