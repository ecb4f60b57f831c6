import { expect, test } from "vitest";
import { stepped } from "../../support/stepped.ts";

test("naive: one request at a time, its prompt in one step and then one output token per step", () => {
  const { steps, finished, ends, refused } = stepped({
    scheduler: "naive",
    blocks: 4,
    requests: [
      { input: 6, output: 3 },
      { input: 17, output: 1 }, // five blocks of four
      { arrival: 1, input: 4, output: 1 },
      { arrival: 9, input: 8, output: 2, prefix: ["P", 4] },
      { arrival: 9, input: 7, output: 12, prefix: ["P", 4] }, // 7 + 11 tokens: five blocks
    ],
  });
  expect(steps).toEqual([
    "0: A prefill 0–6",
    "1: A decode",
    "2: A decode",
    "3: C prefill 0–4 · refuses B",
    "9: D prefill 0–8",
    "10: D decode",
    // Its first block is cached: D's first four tokens.
    "11: E prefill 4–7",
    // With its ninth output token the four blocks are full.
    ...Array.from({ length: 9 }, (_, i) => `${12 + i}: E decode`),
    "21: nothing · refuses E",
  ]);
  expect(finished).toEqual(["A", "C", "D"]);
  expect(ends).toEqual({ A: 3, C: 4, D: 11 });
  expect(refused).toEqual({
    B: "it needs more blocks than the cache has",
    E: "its answer needs more blocks than the cache has",
  });
});
