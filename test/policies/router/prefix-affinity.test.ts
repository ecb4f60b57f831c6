import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { blockTokens, Prompts, replicaOf, routed, routerOf } from "./replicas.ts";

const idle = [0, 0, 0];

test("a prompt is routed to a replica with a match of more than half of it, else to the smallest tree", () => {
  const to = routed(routerOf("prefix-affinity", 3), [
    ["abcd", idle], // all trees are empty: 0, whose tree has 4 blocks now
    ["abcdef", idle], // 4 of 6 match: 0 (6)
    ["xyz", idle], // unknown: 1 (3)
    ["abxx", idle], // 2 of 4 is not more than half: 2 (4)
    ["xyzw", idle], // 3 of 4: 1 (4)
    ["ab", idle], // matches in 0 and 2; of equals the first
    ["ab", [1, 0, 0]], // matches in 0 and 2; 2 has fewer requests
    ["mnop", idle], // unknown; trees of 6, 4 and 4 blocks: 1 (8)
    ["mnqr", idle], // 2 of 4: 2 (8)
    ["uv", idle], // trees of 6, 8 and 8: 0
  ]);
  expect(to).toEqual([0, 0, 1, 2, 1, 0, 2, 1, 2, 0]);
});

test("the match rate counts tokens, including those after the last full block", () => {
  const to = routed(routerOf("prefix-affinity", 2), [
    ["ab", [0, 0]],
    ["abcd", [0, 0], { more: 0 }], // 8 of 16 tokens: not more than half, so 1, whose tree is empty
    ["ab", [0, 1], { more: 3 }], // 8 of 11
    ["z", [0, 0]], // the tree of 0 has 2 blocks, that of 1 has 4
    ["zy", [0, 0], { more: 1 }], // 4 of 9: smallest tree, 0 with 3 of 4
  ]);
  expect(to).toEqual([0, 1, 0, 0, 0]);
});

test("a prompt without a full block is routed to the least loaded replica", () => {
  const to = routed(routerOf("prefix-affinity", 2), [
    ["", [1, 0], { more: 3 }],
    ["", [1, 2], { more: 3 }],
    ["", [1, 0]],
  ]);
  expect(to).toEqual([1, 0, 1]);
});

describe("imbalance", () => {
  test("is a difference of more than 32 requests, and routes to the least loaded replica", () => {
    const to = routed(routerOf("prefix-affinity", 2), [
      ["abcd", [0, 0]], // 0
      ["abcd", [32, 0]], // 32 more are not more than 32: stays
      ["abcd", [33, 0]], // imbalanced: 1
      ["abcde", [20, 30]], // matches in both: 0 has fewer requests
      ["abcde", [{ waiting: 3, running: 50 }, 20]], // 53 − 20 = 33: 1
    ]);
    expect(to).toEqual([0, 0, 1, 0, 1]);
  });

  test("also requires the relative threshold", () => {
    const to = (most: number) =>
      routed(routerOf("prefix-affinity", 2, { "balance-rel-threshold": 1.5 }), [
        ["abcd", [0, 0]],
        ["abcd", [most, 100]],
      ])[1];
    expect(to(133)).toBe(0);
    expect(to(150)).toBe(0);
    expect(to(151)).toBe(1);
  });

  test("prompts routed because of imbalance are inserted into the tree", () => {
    const to = routed(routerOf("prefix-affinity", 2, { "balance-abs-threshold": 0 }), [
      ["abcd", [1, 0]], // 1, and its tree is the larger one
      ["abcd", [0, 0]],
      ["xyzuv", [0, 0]], // smallest: 0
    ]);
    expect(to).toEqual([1, 1, 0]);
  });
});

test("a tree above its limit evicts the least recently used prefix, from its end", () => {
  // Trees of 4 blocks; threshold 0: any matching block suffices.
  const router = routerOf("prefix-affinity", 2, { "max-tree-size": 16, "cache-threshold": 0 });
  const full = [0, 50]; // so that 1 is never the least loaded
  const to = routed(router, [
    ["abc", full], // imbalanced, so 0: a, b, c
    ["x", full], // 0: a, b, c, x
    ["a", full], // 0: a is newer than x
    ["yz", full], // 0: evicts c, then b: x, a, y, z
    ["ab", [0, 0]], // a matches: 0; b is inserted, x evicted
    ["x", [0, 0]], // evicted, so to the smallest tree: 1
    ["bc", [0, 0]], // another b than the one after a: 1
    ["yz", [0, 0]], // 0
  ]);
  expect(to).toEqual([0, 0, 0, 0, 0, 1, 1, 0]);
});

test("of a prompt longer than a tree the beginning is stored", () => {
  const router = routerOf("prefix-affinity", 2, { "max-tree-size": 16 });
  const to = routed(router, [
    ["abcdefgh", [0, 0]],
    ["abcdef", [0, 0]], // 4 of 6
    ["abcdefgh", [0, 0]], // 4 of 8 are not enough: 1
  ]);
  expect(to).toEqual([0, 0, 1]);
});

/** A naive implementation: a replica's tree is a set of prefixes with their last use. */
class Naive {
  readonly #trees: Map<string, number>[];
  readonly #maxBlocks: number;
  #uses = 0;

  constructor(replicaCount: number, maxBlocks: number) {
    this.#trees = Array.from({ length: replicaCount }, () => new Map());
    this.#maxBlocks = maxBlocks;
  }

  route(prompt: string, loads: readonly number[]): number {
    const to = this.#choose(prompt, loads);
    const tree = this.#trees[to];
    this.#uses++;
    for (let i = 1; i <= prompt.length; i++) tree.set(prompt.slice(0, i), this.#uses);
    while (tree.size > this.#maxBlocks) {
      const leaves = [...tree].filter(([a]) => ![...tree.keys()].some((b) => b !== a && b.startsWith(a)));
      leaves.sort(([, a], [, b]) => a - b);
      tree.delete(leaves[0][0]);
    }
    return to;
  }

  #choose(prompt: string, loads: readonly number[]): number {
    const fewest = (among: readonly number[]) => among.reduce((a, b) => (loads[b] < loads[a] ? b : a));
    const all = loads.map((_, i) => i);
    const [most, least] = [Math.max(...loads), Math.min(...loads)];
    if (prompt === "" || (most - least > 2 && most > 1.5 * least)) return fewest(all);
    for (let known = prompt.length; known > 0.5 * prompt.length; known--) {
      const owners = all.filter((i) => this.#trees[i].has(prompt.slice(0, known)));
      if (owners.length > 0) return fewest(owners);
    }
    return all.reduce((a, b) => (this.#trees[b].size < this.#trees[a].size ? b : a));
  }
}

test("it makes the same decisions as a naive implementation", () => {
  const request = fc.record({
    prompt: fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 7 }),
    loads: fc.array(fc.nat(4), { minLength: 3, maxLength: 3 }),
  });
  fc.assert(
    fc.property(fc.array(request, { maxLength: 60 }), fc.integer({ min: 1, max: 12 }), (requests, maxBlocks) => {
      const router = routerOf("prefix-affinity", 3, {
        "max-tree-size": maxBlocks * blockTokens,
        "balance-abs-threshold": 2,
        "balance-rel-threshold": 1.5,
      });
      const naive = new Naive(3, maxBlocks);
      const expected = requests.map(({ prompt, loads }) => naive.route(prompt, loads));
      expect(
        routed(
          router,
          requests.map(({ prompt, loads }) => [prompt, loads]),
        ),
      ).toEqual(expected);
    }),
    { numRuns: 300 },
  );
});

test("while the load is imbalanced only the least loaded replicas get requests", () => {
  const prompt = fc.string({ unit: fc.constantFrom("a", "b"), maxLength: 6 });
  fc.assert(
    fc.property(fc.array(prompt, { minLength: 1, maxLength: 30 }), fc.nat(100), (all, least) => {
      const prompts = new Prompts();
      const router = routerOf("prefix-affinity", 3);
      const replicas = [least + 33, least, least].map(replicaOf);
      for (const letters of all) expect(router.route(prompts.request(letters), replicas, 0)).toBe(1);
    }),
  );
});
