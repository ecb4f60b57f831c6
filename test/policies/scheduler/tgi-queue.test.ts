import { describe, expect, test } from "vitest";
import { tgi } from "../../../policies/presets/tgi.ts";
import { type SteppedRequest, stepped } from "../../support/stepped.ts";

/**
 * TGI's cache, of single tokens: slots for the longest output are reserved, prompts are published when their requests finish.
 */
const run = (blocks: number, requests: SteppedRequest[], options = {}, repeats = false) =>
  stepped({ scheduler: "tgi-queue", preset: tgi, blocks, blockTokens: 1, requests, options, repeats });

describe("the queue", () => {
  test("interrupts decoding once there are enough waiting requests per running one", () => {
    // Four run. At 0.5, two must wait: E alone, from 1 on, is not enough; F arrives at 3. A decode step follows.
    const { steps } = run(
      100,
      [
        ...[1, 2, 3, 4].map(() => ({ input: 2, output: 6 })),
        { arrival: 1, input: 3, output: 2 },
        { arrival: 3, input: 3, output: 1 },
      ],
      { "waiting-served-ratio": 0.5 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–2, B prefill 0–2, C prefill 0–2, D prefill 0–2",
      "1: A decode, B decode, C decode, D decode",
      "2: A decode, B decode, C decode, D decode",
      "3: E prefill 0–3, F prefill 0–3",
      "4: A decode, B decode, C decode, D decode, E decode",
      "5: A decode, B decode, C decode, D decode",
      "6: A decode, B decode, C decode, D decode",
    ]);
  });

  test("interrupts decoding after max-waiting-tokens steps at the latest", () => {
    // The prefill step counts as one; so two decode steps, and then E is admitted although it is alone.
    const { steps } = run(
      100,
      [...[1, 2, 3, 4].map(() => ({ input: 2, output: 6 })), { arrival: 1, input: 3, output: 1 }],
      { "waiting-served-ratio": 0.5, "max-waiting-tokens": 3 },
    );
    expect(steps[2]).toBe("2: A decode, B decode, C decode, D decode");
    expect(steps[3]).toBe("3: E prefill 0–3");
  });

  test("decodes between two batches of prompts", () => {
    const requests = [0, 1, 1, 2, 2].map((arrival) => ({ arrival, input: 2, output: 3 }));
    expect(run(100, requests, { "waiting-served-ratio": 0 }).steps).toEqual([
      "0: A prefill 0–2",
      "1: B prefill 0–2, C prefill 0–2",
      "2: A decode, B decode, C decode",
      "3: D prefill 0–2, E prefill 0–2",
      "4: A decode, B decode, C decode, D decode, E decode",
      "5: D decode, E decode",
    ]);
  });

  test("chunks the last prompt to fit, which continues in the decode steps of the others", () => {
    const { steps } = run(
      100,
      [
        { input: 3, output: 3 },
        { input: 12, output: 2 },
        { input: 2, output: 1 },
      ],
      { "max-batch-prefill-tokens": 5, "waiting-served-ratio": 1 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–3, B prefill 0–2",
      "1: A decode, B prefill 2–7",
      "2: A decode, B prefill 7–12",
      "3: C prefill 0–2",
      "4: B decode",
    ]);
  });

  test("blocks all requests behind the first whose longest output does not fit", () => {
    // 20 slots: A reserves 4 + 9 − 1 = 12. B needs 6 + 5 − 1 = 10; C would fit. A generates only 4, and finishes with step 3.
    // Its prompt stays cached, but is evictable.
    const { steps } = run(20, [
      { input: 4, output: 4, maxOutput: 9 },
      { input: 6, output: 1, maxOutput: 5 },
      { input: 2, output: 1 },
    ]);
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: A decode",
      "2: A decode",
      "3: A decode",
      "4: B prefill 0–6, C prefill 0–2",
    ]);
  });

  test("does not interrupt decoding if fewer requests fit than a batch needs", () => {
    // Four requests use 4 × 5 of 28 slots. Two more must fit: one with 4 slots does, one with 8 slots does not.
    const { steps, cache } = run(
      28,
      [
        ...[1, 2, 3, 4].map(() => ({ input: 2, output: 4 })),
        { arrival: 1, input: 4, output: 1, prefix: ["p", 3] },
        { arrival: 1, input: 8, output: 1, prefix: ["p", 3] },
      ],
      { "waiting-served-ratio": 0.5 },
    );
    expect(steps.slice(1)).toEqual([
      "1: A decode, B decode, C decode, D decode",
      "2: A decode, B decode, C decode, D decode",
      "3: A decode, B decode, C decode, D decode",
      "4: E prefill 0–4, F prefill 0–8",
    ]);
    expect(cache.counters.hitTokens).toBe(0);
    expect(cache.counters.preemptions).toBe(0);
  });

  test("counts referenced cached slots once when it determines how many requests fit", () => {
    // P leaves its prompt of 10 in the cache. Then A and B use it, with 1 + 3 more each: 10 + 8 of 24 slots. C and D need 10
    // + 2 each, of which 10 are referenced already: both fit.
    const shared = (output: number, arrival: number): SteppedRequest => ({
      arrival,
      input: 11,
      output,
      prefix: ["p", 10],
    });
    const { steps } = run(
      24,
      [{ input: 10, output: 1, prefix: ["p", 10] }, shared(4, 2), shared(4, 2), shared(2, 3), shared(2, 3)],
      { "waiting-served-ratio": 1 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–10",
      "2: B prefill 10–11, C prefill 10–11",
      "3: D prefill 10–11, E prefill 10–11",
      "4: B decode, C decode, D decode, E decode",
      "5: B decode, C decode",
      "6: B decode, C decode",
    ]);
  });

  test("has a maximum batch size, and a budget of tokens, which a single request may exceed", () => {
    const requests = [
      { input: 2, output: 2 },
      { input: 9, output: 3 },
      { input: 2, output: 2 },
      { input: 2, output: 2 },
    ];
    const seats = run(100, requests, { "max-batch-size": 2 });
    expect(seats.steps[0]).toBe("0: A prefill 0–2, B prefill 0–9");
    // With their outputs 3, 11, 3 and 3 tokens: A, then B alone, then the others.
    expect(run(100, requests, { "max-batch-total-tokens": 7 }).steps).toEqual([
      "0: A prefill 0–2",
      "1: A decode",
      "2: B prefill 0–9",
      "3: B decode",
      "4: B decode",
      "5: C prefill 0–2, D prefill 0–2",
      "6: C decode, D decode",
    ]);
    expect(run(10, requests).refused).toEqual({ B: "it needs more blocks than the cache has" });
  });
});

test("repeated steps are equal to planned ones", () => {
  const requests = [0, 2, 9, 9, 30, 31].map((arrival, i) => ({ arrival, input: 5 + i, output: 30 - i, maxOutput: 40 }));
  for (const blocks of [14, 30, 100]) {
    const config = {
      scheduler: "tgi-queue",
      preset: tgi,
      blocks,
      blockTokens: 8,
      requests,
      options: { "max-waiting-tokens": 7 },
    };
    expect(stepped({ ...config, repeats: true }).steps).toEqual(stepped(config).steps);
  }
});
