import { expect, test } from "vitest";
import { PrefixTrees } from "../../../policies/router/prefix-trees.ts";

const prompt = (...ids: number[]) => Uint32Array.from(ids);

test("several replicas can have a block, each in its own tree", () => {
  const trees = new PrefixTrees(3, 100);
  const into = new Int32Array(3);
  const insert = (keys: Uint32Array, replica: number) =>
    trees.insert(keys, 0, keys.length, trees.match(keys, 0, keys.length), replica);
  insert(prompt(1, 2, 3), 2);
  insert(prompt(1, 2), 0);
  insert(prompt(1, 2, 3, 4), 0);
  const ownersOf = (key: number) => Array.from(into.subarray(0, trees.replicasWith(key, into))).sort();
  expect([1, 2, 3, 4].map(ownersOf)).toEqual([[0, 2], [0, 2], [0, 2], [0]]);
  expect(trees.match(prompt(1, 2, 3, 5), 0, 4)).toBe(3);
  expect(trees.match(prompt(9, 1, 2, 5), 1, 3)).toBe(2);
  expect(trees.match(prompt(2 ** 31), 0, 1)).toBe(0);
  expect(trees.smallest()).toBe(1);
});

test("memory is bounded by the limit of the trees", () => {
  const trees = new PrefixTrees(4, 500);
  const keys = new Uint32Array(100);
  for (let round = 0, id = 0; round < 2000; round++) {
    // A common prefix of 20 blocks, and 80 new blocks.
    for (let i = 0; i < keys.length; i++) keys[i] = i < 20 ? i : 20 + id++;
    trees.insert(keys, 0, keys.length, trees.match(keys, 0, keys.length), round % 4);
  }
  // 4 trees of 500 blocks and a prompt, in an array that doubles.
  expect(trees.capacity).toBeLessThanOrEqual(4096);
});
