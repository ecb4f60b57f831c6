import { describe, expect, test } from "vitest";
import { lightllm } from "../../../policies/presets/lightllm.ts";
import { peakTokens } from "../../../policies/scheduler/peak-tokens.ts";
import { type SteppedRequest, stepped } from "../../support/stepped.ts";

/** LightLLM's cache, of single tokens. */
const run = (scheduler: string, blocks: number, requests: SteppedRequest[], options = {}) =>
  stepped({ scheduler, preset: lightllm, blocks, blockTokens: 1, requests, options });

describe("efficient-router", () => {
  test("admits requests while the peak stays below the capacity", () => {
    // 44 slots. a = current tokens + 1; b = remaining − 1 + 6, plus 2 per remaining prefill step.
    // 0: A (11, 11), B (9, 12): 11 · 2 + 20 = 42 is below 44. With C (2, 9) it is 9 · 3 + 22 = 49.
    // 2: A (13, 9), B (11, 10), C: 9 · 3 + 26 = 53. 3: A (14, 8), B (12, 9), C: 8 · 3 + 28 = 52.
    // 4: A has finished. B (13, 8), C (2, 9): 8 · 2 + 15 = 31.
    const { steps } = run("efficient-router", 44, [
      { input: 10, output: 4 },
      { input: 8, output: 5 },
      { input: 1, output: 2 },
    ]);
    expect(steps).toEqual([
      "0: A prefill 0–10, B prefill 0–8",
      "1: A decode, B decode",
      "2: A decode, B decode",
      "3: A decode, B decode",
      "4: C prefill 0–1",
      "5: B decode, C decode",
    ]);
  });

  test("a peak equal to the capacity is not admitted", () => {
    const two = [
      { input: 10, output: 4 },
      { input: 8, output: 5 },
    ];
    expect(run("efficient-router", 42, two).steps[0]).toBe("0: A prefill 0–10");
    expect(run("efficient-router", 43, two).steps[0]).toBe("0: A prefill 0–10, B prefill 0–8");
  });

  test("outputs are estimated at their maximum length while the cache is busy", () => {
    // Of 60 slots 4 are referenced. At maximum length: A (5, 107). At most 2 tokens: A (5, 9), B (5, 9): 9 · 2 + 10 = 28.
    const requests = [1, 2].map(() => ({ input: 4, output: 3, maxOutput: 100 }));
    const [first] = run("efficient-router", 60, requests).steps;
    expect(first).toBe("0: A prefill 0–4");
    const idle = { "router-token-ratio": 0.5, "router-max-new-tokens": 2 };
    expect(run("efficient-router", 60, requests, idle).steps[0]).toBe("0: A prefill 0–4, B prefill 0–4");
  });

  test("preempts the request that arrived last when the estimate was too low; its computed tokens stay cached", () => {
    // 36 slots, outputs are estimated at 2 tokens. A (11, 9), B (6, 9): 9 · 2 + 17 = 35. They use 15, and 2 more at each of
    // the steps 1–10: 35. Step 11 needs 2. B has generated 11, and uses 15 slots; A finishes with its 12th token.
    const { steps } = run(
      "efficient-router",
      36,
      [
        { input: 10, output: 12 },
        { input: 5, output: 13 },
        { arrival: 3, input: 30, output: 1 },
      ],
      { "router-token-ratio": 0.99, "router-max-new-tokens": 2 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–10, B prefill 0–5",
      ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((at) => `${at}: A decode, B decode`),
      "11: A decode · preempts B",
      // All but its last token are hits: that is a decode step.
      "12: B decode",
      "13: B decode",
      "14: C prefill 0–30",
    ]);
  });

  test("computes prompts in chunks, and decodes after each", () => {
    const { steps } = run(
      "efficient-router",
      200,
      [
        { input: 2, output: 6 },
        { arrival: 1, input: 9, output: 2 },
        { arrival: 1, input: 3, output: 1 },
      ],
      { "chunked-prefill-size": 4, "batch-max-tokens": 6, "router-max-wait-tokens": 2 },
    );
    // C's first step needs 3 tokens, but the budget has 2 left; with B's last chunk it has 5 left.
    expect(steps).toEqual([
      "0: A prefill 0–2",
      "1: A decode",
      "2: A decode",
      "3: B prefill 0–4",
      "4: A decode",
      "5: A decode",
      "6: B prefill 4–8",
      "7: A decode",
      "8: B prefill 8–9, C prefill 0–3",
      "9: B decode",
    ]);
  });

  test("refuses no request because of an estimate", () => {
    // A alone is estimated at 6 + 19 + 6 + 2 of 20 slots, but needs only 11.
    const { steps, refused } = run("efficient-router", 20, [
      { input: 5, output: 7, maxOutput: 20 },
      { input: 21, output: 1 },
      { input: 5, output: 20 },
    ]);
    expect(steps[0]).toBe("0: A prefill 0–5 · refuses B");
    expect(refused).toEqual({
      B: "it needs more blocks than the cache has",
      C: "its answer needs more blocks than the cache has",
    });
  });
});

test("efficient-router-first admits a peak equal to the capacity and adds no steps", () => {
  // A (11, 5) and B (9, 6), 2 of each for their prefill step: 5 · 2 + 20 = 30.
  const two = [
    { input: 10, output: 4 },
    { input: 8, output: 5 },
  ];
  expect(run("efficient-router-first", 29, two).steps[0]).toBe("0: A prefill 0–10");
  expect(run("efficient-router-first", 30, two).steps[0]).toBe("0: A prefill 0–10, B prefill 0–8");
});

test("efficient-router-shared counts the common hit tokens of two requests once", () => {
  // A leaves 20 cached tokens. B (22, 10) and C (22, 10): 10 · 2 + 44 = 64, of which 20 are shared.
  const requests: SteppedRequest[] = [
    { input: 20, output: 1, prefix: ["p", 20] },
    { arrival: 2, input: 21, output: 3, prefix: ["p", 20] },
    { arrival: 2, input: 21, output: 3, prefix: ["p", 20] },
  ];
  expect(run("efficient-router", 64, requests).steps[1]).toBe("2: B prefill 20–21");
  const both = "2: B prefill 20–21, C prefill 20–21";
  expect(run("efficient-router-shared", 64, requests).steps[1]).toBe(both);
  expect(run("efficient-router-shared", 45, requests).steps[1]).toBe(both);
  expect(run("efficient-router-shared", 44, requests).steps[1]).toBe("2: B prefill 20–21");
});

test("the peak with shared tokens counts the union, the longest remaining output first", () => {
  const requests = [
    { currentTokens: 10, remainingTokens: 2, on: "p" },
    { currentTokens: 12, remainingTokens: 5, on: "p" },
    { currentTokens: 9, remainingTokens: 4, on: "q" },
  ];
  const shared = (a: { on: string }, b: { on: string }) => (a.on === b.on ? 7 : 0);
  // 12 + 5; 12 + 9 + 2 · 4; 12 + 9 + 10 − 7 + 3 · 2.
  expect(peakTokens(requests, shared)).toBe(30);
  expect(peakTokens(requests)).toBe(37);
});

describe("past-future", () => {
  test("estimates outputs to be as long as finished ones", () => {
    // A and B may generate 50 tokens each: no request runs beside A. It generates 2; so B (6, 9) and C (6, 9) run together.
    const requests = [0, 0, 1].map((arrival) => ({ arrival, input: 5, output: 2, maxOutput: 50 }));
    expect(run("past-future", 60, requests).steps).toEqual([
      "0: A prefill 0–5",
      "1: A decode",
      "2: B prefill 0–5, C prefill 0–5",
      "3: B decode, C decode",
    ]);
  });

  test("samples from the most recent outputs only", () => {
    // A generates 30, alone. With B (6, 37) and C (6, 37) the peak would be 86: B runs alone, and generates 2. With a history
    // of one output C and D are estimated at 2 each: 9 · 2 + 12. With both, the sample decides: (6, 37), (6, 9).
    const requests = [30, 2, 2, 2].map((output) => ({ input: 5, output, maxOutput: 50 }));
    const last = (options: Record<string, number>, seed: number) =>
      stepped({ scheduler: "past-future", preset: lightllm, blocks: 60, blockTokens: 1, options, seed, requests })
        .steps.at(-2)
        ?.replace(/^\d+: /, "");
    const seeds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    const together = "C prefill 0–5, D prefill 0–5";
    expect(new Set(seeds.map((seed) => last({ "history-size": 1 }, seed)))).toEqual(new Set([together]));
    expect(new Set(seeds.map((seed) => last({}, seed)))).toEqual(new Set([together, "D prefill 0–5"]));
  });
});
