import { describe, expect, test } from "vitest";
import type { SchedulerPlugin } from "../../../core/plugins/index.ts";
import { sglang } from "../../../policies/presets/sglang.ts";
import { schedulerRegistry } from "../../../policies/registry.ts";
import type { PrefillFirst } from "../../../policies/scheduler/prefill-first.ts";
import { type SteppedConfig, type SteppedRequest, stepped } from "../../support/stepped.ts";

/** SGLang's cache, of single tokens. */
const run = (scheduler: string | SchedulerPlugin, blocks: number, requests: SteppedRequest[], options = {}) =>
  stepped({ scheduler, preset: sglang, blocks, blockTokens: 1, requests, options });

/** The plug-in, and the scheduler that it makes. */
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

describe("prompts first", () => {
  test("cuts the last prompt to fit the chunk, and decodes only when no prompt is left", () => {
    // 10 tokens a step: 8 of A and 2 of B; then the other 4 of B, for nobody else waits; then C, which came meanwhile.
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

  test("decodes along with chunks if they may mix; each token decoded is one prompt token less", () => {
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

  test("the first that finds no room holds up everybody until a request ends", () => {
    // 20 slots. A takes 4 and may write 10 more: 6 are left, of which B wants 5 + 4. C would fit, but B is before it.
    // A really writes 3, and ends with step 2.
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

  test("so many prompt tokens a step, unless they are one request's", () => {
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

  test("runs no more than it may", () => {
    const requests = [1, 1, 1].map((output) => ({ input: 2, output }));
    const { steps } = run("sglang-fcfs", 100, requests, { "max-running-requests": 2 });
    expect(steps).toEqual(["0: A prefill 0–2, B prefill 0–2", "1: C prefill 0–2"]);
  });

  test("refuses what never fits, and who alone has no room for its answer", () => {
    const { steps, refused, ends } = run("sglang-fcfs", 10, [
      { input: 4, output: 12 },
      { input: 11, output: 1 },
      { input: 2, output: 2 },
    ]);
    // A holds 4, then one more at each of the six steps to come; the seventh finds none.
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

  test("sends whoever has the fewest output tokens to the end of the queue", () => {
    // 20 slots, none kept for answers. Step 1: B wants 3 + 12 of 16. A and B hold 7 then, and 2 more at each of the six
    // steps 2–7; C, which wants 2 + 12, finds 11 left. Step 8 needs 2 slots of 1: both have written 7, so A goes, whose
    // prompt is longer, and stands behind C. B ends with its 12th token in step 12. C goes alone, and may write 12: of the
    // 18 slots left A has 6, and wants the 7 tokens that are not cached and 5 to write. It goes when C has ended.
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

  test("raises the ratio to what those left would need, and the ratio falls again", () => {
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
    // Steps 0 and 1 compute prompts. Two decode steps take 0.01 to nothing. In step 8 B has 7 tokens of 12, and one step
    // to come: 8 / 12. Then 0.005 less a step, and none in steps 13 and 14, which compute prompts.
    const expected = [0.01, 0.01, 0.005, 0, 0, 0, 0, 0, 8 / 12];
    for (let step = 1; step <= 4; step++) expected.push(8 / 12 - step * 0.005);
    expected.push(expected[12], expected[12]);
    for (let step = 5; step <= 8; step++) expected.push(8 / 12 - step * 0.005);
    expect(ratios).toHaveLength(expected.length);
    for (const [i, ratio] of ratios.entries()) expect(ratio).toBeCloseTo(expected[i], 12);
  });

  test("begins anew after an idle time", () => {
    const { plugin, made } = watched();
    const later = { arrival: 40, input: 1, output: 1 };
    const all = [...requests, later];
    stepped({ scheduler: plugin, preset: sglang, blocks: 20, blockTokens: 1, requests: all, options });
    expect(made().newTokenRatio).toBe(0);
  });
});

test("steps done at once leave the ratio as it would have been", () => {
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
  const told = (repeats: boolean) => {
    const ratios: [number, number][] = [];
    const { steps } = stepped({
      ...config,
      repeats,
      planned: (_, __, now) => ratios.push([now, made().newTokenRatio]),
    });
    return { steps, ratios: new Map(ratios) };
  };
  const one = told(false);
  const many = told(true);
  expect(many.steps).toEqual(one.steps);
  expect(many.ratios.size).toBeLessThan(one.ratios.size / 2);
  for (const [now, ratio] of many.ratios) expect(ratio).toBe(one.ratios.get(now));
});

describe("the order of the queue", () => {
  /** Z keeps the only place busy while A–E come; then they go one by one. */
  const busy = { input: 1, output: 6 };
  const oneByOne = { "max-running-requests": 1 };
  const order = (name: string, requests: SteppedRequest[], options = {}) =>
    run(name, 1000, [busy, ...requests.map((each) => ({ arrival: 1, ...each }))], {
      ...oneByOne,
      ...options,
    }).finished.slice(1);

  test("lpm: of requests that begin alike only the first is not put behind the others", () => {
    // Two go in a step. A and B begin alike, so C goes before B, which then finds 8 tokens.
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

  test("lpm: who has most in the cache goes first", () => {
    const requests: SteppedRequest[] = [
      { input: 40, output: 6, prefix: ["p", 40] },
      { arrival: 1, input: 3, output: 1 },
      { arrival: 1, input: 20, output: 1, prefix: ["p", 10] },
      { arrival: 1, input: 50, output: 1, prefix: ["p", 30] },
    ];
    expect(run("lpm", 1000, requests, oneByOne).finished).toEqual(["A", "D", "C", "B"]);
  });

  test("dfs-weight: the branch where most wait, deeper ones before those above", () => {
    const requests: SteppedRequest[] = [
      { input: 20, output: 2, prefix: ["p", 20] },
      { input: 20, output: 8, prefix: ["q", 20] },
      // Nothing cached; one on q; three on p: one that ends above, two that go on.
      { arrival: 3, input: 5, output: 1 },
      { arrival: 3, input: 25, output: 1, prefix: ["q", 20] },
      { arrival: 3, input: 12, output: 1, prefix: ["p", 10] },
      { arrival: 3, input: 25, output: 1, prefix: ["p", 20] },
      { arrival: 3, input: 30, output: 1, prefix: ["p", 20] },
    ];
    const { steps } = run("dfs-weight", 1000, requests);
    expect(steps[3]).toBe("3: F prefill 20–25, G prefill 20–30, E prefill 10–12, D prefill 20–25, C prefill 0–5");
    // One by one the order is found anew each time; E and D are one each then, and D came first.
    const behind = [{ input: 40, output: 8, prefix: ["p", 20] as const }, ...requests.slice(1)];
    const { finished } = run("dfs-weight", 1000, behind, { "max-running-requests": 3 });
    expect(finished.filter((name) => name > "B")).toEqual(["F", "G", "D", "E", "C"]);
  });

  test("lof: the longest answer first, of equals who came first", () => {
    const requests = [3, 9, 3, 9].map((maxOutput) => ({ input: 2, output: 1, maxOutput }));
    expect(order("lof", requests)).toEqual(["C", "E", "B", "D"]);
  });

  test("hrrn: who has waited longest for each token to compute", () => {
    // At 6: B has waited 5 for 10 tokens, C 3 for 2, D 1 for 1. At 7, with C gone, B 6 for 10, D 2 for 1.
    const requests = [
      { arrival: 1, input: 10, output: 1 },
      { arrival: 3, input: 2, output: 1 },
      { arrival: 5, input: 1, output: 1 },
    ];
    expect(order("hrrn", requests)).toEqual(["C", "D", "B"]);
  });

  test("random: by the seed", () => {
    const requests = Array.from({ length: 6 }, () => ({ input: 2, output: 1 }));
    const at = (seed: number) =>
      stepped({ scheduler: "random", blocks: 100, seed, requests, options: oneByOne }).finished.join("");
    expect(at(1)).toBe(at(1));
    expect(new Set([1, 2, 3, 4].map(at)).size).toBeGreaterThan(1);
    expect([...at(1)].sort().join("")).toBe("ABCDEF");
  });
});

test("mini-sglang keeps room for all of the longest answers, and retracts nobody", () => {
  // 20 slots. A takes 4 + 9; B would take 3 + 5 of the 7 others. A's tokens come out of its room, so B waits for its end.
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
