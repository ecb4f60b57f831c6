import { describe, expect, test } from "vitest";
import type { SchedulerPlugin } from "../../../core/plugins/index.ts";
import { sglang } from "../../../policies/presets/sglang.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import type { PrefillFirst } from "../../../policies/scheduler/prefill-first.ts";
import { type SteppedConfig, type SteppedRequest, stepped } from "../../support/stepped.ts";

/** SGLang's cache, of single tokens. */
const run = (scheduler: string | SchedulerPlugin, blocks: number, requests: SteppedRequest[], options = {}) =>
  stepped({ scheduler, preset: sglang, blocks, blockTokens: 1, requests, options });

/** The plug-in, and the scheduler that it creates. */
function watched(name = "sglang-fcfs"): { plugin: SchedulerPlugin; made: () => PrefillFirst } {
  const plugin = schedulerRegistry.get(name);
  let made: PrefillFirst | undefined;
  return {
    plugin: {
      ...plugin,
      create(given) {
        made = plugin.create(given) as PrefillFirst;
        return made;
      },
    },
    made: () => made!,
  };
}

describe("prefill first", () => {
  test("chunks the last prompt to fit, and decodes only when no prompt is left", () => {
    // 10 tokens per step: 8 of A and 2 of B; then the other 4 of B, because no other request waits; then C, which has arrived
    // meanwhile.
    const { steps, ends } = run(
      "sglang-fcfs",
      100,
      [
        { input: 8, output: 3 },
        { input: 6, output: 4 },
        { arrival: 2, input: 4, output: 2 },
      ],
      { "chunked-prefill-size": 10 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–8, B prefill 0–2",
      "1: B prefill 2–6",
      "2: C prefill 0–4",
      "3: A decode, B decode, C decode",
      "4: A decode, B decode",
      "5: B decode",
    ]);
    expect(ends).toEqual({ A: 5, B: 6, C: 4 });
  });

  test("with mixed-chunk prefill steps decode, too; each decoded token takes one prompt token from the budget", () => {
    const { steps } = run(
      "sglang-fcfs",
      100,
      [
        { input: 4, output: 6 },
        { arrival: 2, input: 12, output: 3 },
      ],
      { "mixed-chunk": 1, "chunked-prefill-size": 5 },
    );
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: A decode",
      "2: B prefill 0–4, A decode",
      "3: B prefill 4–8, A decode",
      "4: B prefill 8–12, A decode",
      "5: A decode, B decode",
      "6: B decode",
    ]);
  });

  test("the first request that does not fit blocks all others until a request finishes", () => {
    // 20 slots. A uses 4 and may generate 10 more: 6 are left, and B needs 5 + 4. C would fit, but B precedes it.
    // A generates only 3, and finishes with step 2.
    const { steps } = run(
      "sglang-fcfs",
      20,
      [
        { input: 4, output: 3, maxOutput: 10 },
        { input: 5, output: 1, maxOutput: 4 },
        { input: 1, output: 1 },
      ],
      {},
    );
    expect(steps).toEqual(["0: A prefill 0–4", "1: A decode", "2: A decode", "3: B prefill 0–5, C prefill 0–1"]);
  });

  test("a step has at most max-prefill-tokens, unless it has one request only", () => {
    const { steps } = run(
      "sglang-fcfs",
      100,
      [
        { input: 9, output: 1 },
        { input: 3, output: 1 },
        { input: 2, output: 1 },
        { input: 2, output: 1 },
      ],
      { "max-prefill-tokens": 6 },
    );
    expect(steps).toEqual(["0: A prefill 0–9", "1: B prefill 0–3, C prefill 0–2", "2: D prefill 0–2"]);
  });

  test("runs at most max-running-requests", () => {
    const requests = [1, 1, 1].map((output) => ({ input: 2, output }));
    const { steps } = run("sglang-fcfs", 100, requests, { "max-running-requests": 2 });
    expect(steps).toEqual(["0: A prefill 0–2, B prefill 0–2", "1: C prefill 0–2"]);
  });

  test("refuses a request that never fits, and one whose output does not fit even alone", () => {
    const { steps, refused, ends } = run("sglang-fcfs", 10, [
      { input: 4, output: 12 },
      { input: 11, output: 1 },
      { input: 2, output: 2 },
    ]);
    // A uses 4 slots, then one more in each of the next six steps; none is left for the seventh.
    expect(steps.slice(-2)).toEqual(["7: C prefill 0–2 · refuses A", "8: C decode"]);
    expect(refused).toEqual({
      A: "its answer needs more blocks than the cache has",
      B: "it needs more blocks than the cache has",
    });
    expect(ends).toEqual({ C: 9 });
  });
});

describe("retraction", () => {
  const requests = [
    { input: 4, output: 12 },
    { arrival: 1, input: 3, output: 12 },
    { arrival: 3, input: 2, output: 1, maxOutput: 12 },
  ];
  const options = { "init-new-token-ratio": 0, "retract-decode-steps": 1 };

  test("retracts the request with the fewest output tokens to the tail of the queue", () => {
    // 20 slots, none reserved for outputs. Step 1: B needs 3 + 12 of 16. A and B use 7 then, and 2 more in each of the six
    // steps 2–7; C, which needs 2 + 12, has 11 available. Step 8 needs 2 slots of 1: both have generated 7, so A is retracted,
    // whose prompt is longer, and is behind C. B finishes with its 12th token in step 12. C runs alone, and may generate 12: of
    // the 18 available slots 6 are reserved for A, which needs 7 uncached and 5 output tokens. It is admitted when C has
    // finished.
    const { steps, ends } = run("sglang-fcfs", 20, requests, options);
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: B prefill 0–3",
      ...[2, 3, 4, 5, 6, 7].map((at) => `${at}: A decode, B decode`),
      "8: B decode · preempts A",
      ...[9, 10, 11, 12].map((at) => `${at}: B decode`),
      "13: C prefill 0–2",
      "14: A prefill 4–11",
      ...[15, 16, 17, 18].map((at) => `${at}: A decode`),
    ]);
    expect(ends).toEqual({ A: 19, B: 13, C: 14 });
  });

  test("sets the ratio to the need of the remaining requests, and then the ratio falls again", () => {
    const { plugin, made } = watched();
    const ratios: number[] = [];
    stepped({
      scheduler: plugin,
      preset: sglang,
      blocks: 20,
      blockTokens: 1,
      requests,
      options: {
        ...options,
        "init-new-token-ratio": 0.01,
        "min-new-token-ratio-factor": 0,
        "new-token-ratio-decay-steps": 2,
      },
      committed: () => ratios.push(made().newTokenRatio),
    });
    // Steps 0 and 1 are prefill. Two decode steps lower the ratio from 0.01 to 0. In step 8 B has 7 tokens of 12, and one step
    // is reserved: 8 / 12. Then 0.005 less per step, except in the prefill steps 13 and 14.
    const expected = [0.01, 0.01, 0.005, 0, 0, 0, 0, 0, 8 / 12];
    for (let step = 1; step <= 4; step++) expected.push(8 / 12 - step * 0.005);
    expected.push(expected[12], expected[12]);
    for (let step = 5; step <= 8; step++) expected.push(8 / 12 - step * 0.005);
    expect(ratios).toHaveLength(expected.length);
    for (const [i, ratio] of ratios.entries()) expect(ratio).toBeCloseTo(expected[i], 12);
  });

  test("resets the ratio after an idle period", () => {
    const { plugin, made } = watched();
    const later = { arrival: 40, input: 1, output: 1 };
    const all = [...requests, later];
    stepped({ scheduler: plugin, preset: sglang, blocks: 20, blockTokens: 1, requests: all, options });
    expect(made().newTokenRatio).toBe(0);
  });
});

test("repeated steps lower the ratio as planned ones do", () => {
  const { plugin, made } = watched();
  const config: SteppedConfig = {
    scheduler: plugin,
    preset: sglang,
    rules: { "victim-unit": "node" },
    blockTokens: 8,
    blocks: 12,
    options: { "new-token-ratio-decay-steps": 40 },
    requests: [
      { input: 20, output: 50 },
      { arrival: 3, input: 9, output: 30, maxOutput: 40 },
      { arrival: 20, input: 30, output: 20, maxOutput: 60 },
      { arrival: 31, input: 7, output: 20 },
    ],
  };
  const ratioAfter = (repeats: boolean) => {
    const ratios: [number, number][] = [];
    const { steps } = stepped({
      ...config,
      repeats,
      planned: (_, __, now) => ratios.push([now, made().newTokenRatio]),
    });
    return { steps, ratios: new Map(ratios) };
  };
  const one = ratioAfter(false);
  const many = ratioAfter(true);
  expect(many.steps).toEqual(one.steps);
  expect(many.ratios.size).toBeLessThan(one.ratios.size / 2);
  for (const [now, ratio] of many.ratios) expect(ratio).toBe(one.ratios.get(now));
});

describe("the order of the queue", () => {
  /** Z is the only running request while A–E arrive; then they are admitted one by one. */
  const busy = { input: 1, output: 6 };
  const oneByOne = { "max-running-requests": 1 };
  const order = (name: string, requests: SteppedRequest[], options = {}) =>
    run(name, 1000, [busy, ...requests.map((each) => ({ arrival: 1, ...each }))], {
      ...oneByOne,
      ...options,
    }).finished.slice(1);

  test("lpm: of requests with a common prefix all but the first are deprioritized", () => {
    // Two are admitted per step. A and B have a common prefix, so C precedes B, which then has 8 hit tokens.
    const requests: SteppedRequest[] = [
      { input: 10, output: 1, prefix: ["p", 8] },
      { input: 10, output: 1, prefix: ["p", 8] },
      { input: 10, output: 1 },
    ];
    const two = { "max-prefill-tokens": 21, "chunked-prefill-size": 20 };
    const thresholds = {
      "in-batch-prefix-caching-check-threshold": 4,
      "in-batch-prefix-caching-deprioritize-threshold": 8,
    };
    const lpm = run("lpm", 100, requests, { ...two, ...thresholds });
    expect(lpm.steps).toEqual(["0: A prefill 0–10, C prefill 0–10", "1: B prefill 8–10"]);
    const fallback = run("lpm", 100, requests, { ...two, ...thresholds, "lpm-fallback-queue-len": 2 });
    expect(fallback.steps).toEqual(["0: A prefill 0–10, B prefill 0–10", "1: C prefill 0–10"]);
    expect(run("sglang-fcfs", 100, requests, two).steps).toEqual(fallback.steps);
  });

  test("lpm: the request with the most cached tokens is first", () => {
    const requests: SteppedRequest[] = [
      { input: 40, output: 6, prefix: ["p", 40] },
      { arrival: 1, input: 3, output: 1 },
      { arrival: 1, input: 20, output: 1, prefix: ["p", 10] },
      { arrival: 1, input: 50, output: 1, prefix: ["p", 30] },
    ];
    expect(run("lpm", 1000, requests, oneByOne).finished).toEqual(["A", "D", "C", "B"]);
  });

  test("dfs-weight: the branch with the most waiting requests is first, deeper requests before shallower ones", () => {
    const requests: SteppedRequest[] = [
      { input: 20, output: 2, prefix: ["p", 20] },
      { input: 20, output: 8, prefix: ["q", 20] },
      // One request without hits; one on q; three on p: one that ends above, two that continue.
      { arrival: 3, input: 5, output: 1 },
      { arrival: 3, input: 25, output: 1, prefix: ["q", 20] },
      { arrival: 3, input: 12, output: 1, prefix: ["p", 10] },
      { arrival: 3, input: 25, output: 1, prefix: ["p", 20] },
      { arrival: 3, input: 30, output: 1, prefix: ["p", 20] },
    ];
    const { steps } = run("dfs-weight", 1000, requests);
    expect(steps[3]).toBe("3: F prefill 20–25, G prefill 20–30, E prefill 10–12, D prefill 20–25, C prefill 0–5");
    // The order is recomputed for each admission; E and D are one request each then, and D arrived first.
    const behind = [{ input: 40, output: 8, prefix: ["p", 20] as const }, ...requests.slice(1)];
    const { finished } = run("dfs-weight", 1000, behind, { "max-running-requests": 3 });
    expect(finished.filter((name) => name > "B")).toEqual(["F", "G", "D", "E", "C"]);
  });

  test("lof: the longest output first; ties are broken by arrival", () => {
    const requests = [3, 9, 3, 9].map((maxOutput) => ({ input: 2, output: 1, maxOutput }));
    expect(order("lof", requests)).toEqual(["C", "E", "B", "D"]);
  });

  test("hrrn: the most waiting time per uncached token is first", () => {
    // At 6: B has waited 5 for 10 tokens, C 3 for 2, D 1 for 1. At 7, without C, B 6 for 10, D 2 for 1.
    const requests = [
      { arrival: 1, input: 10, output: 1 },
      { arrival: 3, input: 2, output: 1 },
      { arrival: 5, input: 1, output: 1 },
    ];
    expect(order("hrrn", requests)).toEqual(["C", "D", "B"]);
    // The prefix of B is cached: it has 5 uncached tokens, C 8.
    const cached: SteppedRequest[] = [
      { input: 30, output: 6, prefix: ["p", 20] },
      { arrival: 1, input: 25, output: 1, prefix: ["p", 20] },
      { arrival: 1, input: 8, output: 1 },
    ];
    expect(run("hrrn", 1000, cached, oneByOne).finished).toEqual(["A", "B", "C"]);
  });

  test("random: the order depends on the seed", () => {
    const requests = Array.from({ length: 6 }, () => ({ input: 2, output: 1 }));
    const at = (seed: number) =>
      stepped({ scheduler: "random", blocks: 100, seed, requests, options: oneByOne }).finished.join("");
    expect(at(1)).toBe(at(1));
    expect(new Set([1, 2, 3, 4].map(at)).size).toBeGreaterThan(1);
    expect([...at(1)].sort().join("")).toBe("ABCDEF");
  });
});

test("mini-sglang reserves slots for the longest outputs, and retracts no request", () => {
  // 20 slots. A reserves 4 + 9; B would need 3 + 5 of the other 7. A's output uses its reservation, so B waits until A
  // finishes.
  const { steps } = run("mini-sglang", 20, [
    { input: 4, output: 4, maxOutput: 9 },
    { input: 3, output: 2, maxOutput: 5 },
  ]);
  expect(steps).toEqual([
    "0: A prefill 0–4",
    "1: A decode",
    "2: A decode",
    "3: A decode",
    "4: B prefill 0–3",
    "5: B decode",
  ]);
});
