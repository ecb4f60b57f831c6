import { expect, test } from "vitest";
import { routed, routerOf } from "./replicas.ts";

// Blocks of 4 tokens.

test("the replica with the lowest sum of uncached and referenced blocks is chosen", () => {
  const to = routed(routerOf("dynamo-kv", 3), [
    // 8 blocks; costs: 8 + 0 + 8 = 16, 4 + 3 + 8 = 15, 0 + 9 + 8 = 17.
    ["abcdefgh", [{}, { cachedTokens: 16, heldBlocks: 3 }, { cachedTokens: 32, heldBlocks: 9 }]],
    // 16, 17, 15.
    ["abcdefgh", [{}, { cachedTokens: 16, heldBlocks: 5 }, { cachedTokens: 32, heldBlocks: 7 }]],
    // Waiting requests must be computed and need blocks: 8 + 8, 0 + 4 + 4 + 8 = 16 … of equals fewer requests: 0.
    ["abcdefgh", [{}, { cachedTokens: 32, waitingTokens: 16, waiting: 1 }, { heldBlocks: 1 }]],
    // One waiting token less: 0 + 15 / 4 + ⌈47 / 4⌉ = 15.75.
    ["abcdefgh", [{}, { cachedTokens: 32, waitingTokens: 15, waiting: 1 }, { heldBlocks: 1 }]],
  ]);
  expect(to).toEqual([1, 2, 0, 1]);
});

test("the weight decides between a cached prefix and a replica with low load", () => {
  const loads = [{ cachedTokens: 16, heldBlocks: 6 }, {}]; // prefill 0 against 4 blocks, referenced 6 against 0
  const to = (weight: number) => routed(routerOf("dynamo-kv", 2, { "overlap-weight": weight }), [["abcd", loads]]);
  expect(to(1)).toEqual([1]);
  expect(to(2)).toEqual([0]); // 6 against 8
  expect(to(0)).toEqual([1]);
});

test("replicas of equal cost are equally likely", () => {
  const counts = [0, 0, 0];
  for (const to of routed(routerOf("dynamo-kv", 3), Array(3000).fill(["ab", [{}, {}, {}]]))) counts[to]++;
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(130);
});

test("with a temperature the probability is proportional to exp(−cost / temperature) of costs scaled to [0, 1]", () => {
  // Costs 0, 5, 10 apart: 0, 0.5, 1; at temperature 0.5 weights 1, e⁻¹, e⁻² = 1, 0.368, 0.135 of 1.503.
  const loads = [{ heldBlocks: 10 }, { heldBlocks: 0 }, { heldBlocks: 5 }];
  const counts = [0, 0, 0];
  for (const to of routed(routerOf("dynamo-kv", 3, { temperature: 0.5 }), Array(6000).fill(["ab", loads])))
    counts[to]++;
  const expected = [540, 3991, 1468];
  for (const i of [0, 1, 2]) expect(Math.abs(counts[i] - expected[i])).toBeLessThan(190);
});

test("with a temperature, replicas of equal cost are equally likely", () => {
  const counts = [0, 0];
  for (const to of routed(routerOf("dynamo-kv", 2, { temperature: 1 }), Array(2000).fill(["ab", [{}, {}]])))
    counts[to]++;
  for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(110);
});
