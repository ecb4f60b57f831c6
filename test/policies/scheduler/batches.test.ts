import { describe, expect, test } from "vitest";
import { stepped } from "../../support/stepped.ts";

// Blocks have four tokens, and can be hit from their allocation on.

describe("static", () => {
  test("a batch runs until all its requests have finished, and only then the next one is admitted", () => {
    const { steps, ends } = stepped({
      scheduler: "static",
      options: { "batch-size": 2 },
      blocks: 20,
      requests: [
        { input: 4, output: 1 },
        { input: 4, output: 4 },
        { input: 4, output: 2 },
        { arrival: 1, input: 8, output: 1 },
        { input: 3, output: 1, arrival: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4, B prefill 0–4",
      "1: B decode",
      "2: B decode",
      "3: B decode",
      "4: C prefill 0–4, D prefill 0–8",
      "5: C decode",
      "6: E prefill 0–3",
    ]);
    expect(ends).toEqual({ A: 1, B: 4, D: 5, C: 6, E: 7 });
  });

  test("a request for which no block is left waits for the next batch", () => {
    const { steps } = stepped({
      scheduler: "static",
      blocks: 4,
      requests: [
        { input: 7, output: 4 },
        { input: 8, output: 2 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–7, B prefill 0–8",
      "1: A decode · preempts B",
      "2: A decode", // its ninth token is stored in B's second block
      "3: A decode",
      "4: B prefill 4–9",
    ]);
  });
});

test("offline: admits all that fit, decodes until all have finished, and admits again", () => {
  const { steps, ends, refused } = stepped({
    scheduler: "offline",
    blocks: 6,
    requests: [
      { input: 8, output: 3 },
      { input: 7, output: 2 },
      { input: 4, output: 1 },
      { input: 8, output: 2 }, // five of six blocks are referenced
      { arrival: 1, input: 2, output: 1 }, // fits, but arrives too late
      { arrival: 1, input: 25, output: 1 },
    ],
  });
  expect(steps).toEqual([
    "0: A prefill 0–8, B prefill 0–7, C prefill 0–4",
    "1: A decode, B decode",
    "2: A decode",
    "3: D prefill 0–8, E prefill 0–2 · refuses F",
    "4: D decode",
  ]);
  expect(ends).toEqual({ C: 1, B: 2, A: 3, E: 4, D: 5 });
  expect(refused).toEqual({ F: "it needs more blocks than the cache has" });
});

describe("online", () => {
  test("serves the head of the queue, and moves unfinished requests to its end", () => {
    const { steps, ends, refused } = stepped({
      scheduler: "online",
      options: { "max-batch-size": 2 },
      blocks: 20,
      requests: [
        { input: 4, output: 3 },
        { input: 5, output: 2 },
        { input: 3, output: 3 },
        { arrival: 2, input: 2, output: 1 },
        { arrival: 2, input: 90, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4, B prefill 0–5", // then C A B
      "1: C prefill 0–3, A decode", // B C A D E
      "2: B decode, C decode", // A D E C
      "3: A decode, D prefill 0–2", // E C
      "4: C decode · refuses E",
    ]);
    expect(ends).toEqual({ B: 3, A: 4, D: 4, C: 5 });
    expect(refused).toEqual({ E: "it needs more blocks than the cache has" });
  });

  test("a preempted request keeps its place in the queue, and is skipped until blocks are available", () => {
    const { steps } = stepped({
      scheduler: "online",
      options: { "max-batch-size": 2 },
      blocks: 3,
      requests: [
        { input: 8, output: 4 },
        { input: 4, output: 4 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8, B prefill 0–4",
      "1: A decode · preempts B", // A's ninth token is stored in B's block
      "2: A decode",
      "3: A decode",
      "4: B prefill 0–5",
      "5: B decode",
      "6: B decode",
    ]);
  });
});
