import { test } from "vitest";
import { runScenario } from "../../laws/scenario.ts";
import { indexRegistry } from "../../policies/registry.ts";
import { allPlugins } from "./all-plugins.ts";

// Shrunk cases of random tests.

const request = (id: number, length: number, outputTokens: number) => ({
  id,
  namespace: 0,
  prompt: Array.from({ length }, () => 0),
  output: Array.from({ length: outputTokens }, () => 0),
  maxOutputTokens: outputTokens,
  markedTokens: 0,
});

test.each(["hash-table", "block-trie", "radix-tree"])(
  "a request whose duplicate was replaced by a block of the current step is preempted together with that block's request: %s",
  (index) => {
    runScenario({
      workload: { unitTokens: 1, requests: [request(0, 1, 2), request(1, 6, 1), request(2, 6, 1), request(3, 1, 1)] },
      config: {
        index: indexRegistry.get(index),
        eviction: allPlugins.reference.eviction,
        allocator: allPlugins.allocators[0],
        blockUnits: 3,
        blocks: undefined,
        rules: { duplicates: "swap", "cache-generated": "true" },
        seed: 1,
      },
      script: [4, 0, 0, 0, 0, 1, 5, 0, 0, 0, 0, 0, 21, 0, 0, 0, 3, 3, 0, 0, 1, 0, 4, 2, 0, 0, 0, 9, 13, 0, 0, 0],
    });
  },
);

test("a copy that was not made is not published when its request is preempted", () => {
  runScenario({
    workload: {
      unitTokens: 3,
      requests: [
        { ...request(0, 1, 2), output: [1000, 1001] },
        { ...request(1, 1, 1), output: [2000] },
      ],
    },
    config: {
      index: indexRegistry.get("block-trie"),
      eviction: allPlugins.reference.eviction,
      allocator: allPlugins.allocators[0],
      blockUnits: 1,
      blocks: 1,
      rules: { "match-limit": "l-1", publish: "finish", partial: "copy" },
      seed: 0,
    },
    script: [16, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 19, 0, 0, 0, 0, 0],
  });
});
