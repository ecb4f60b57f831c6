import { describe, expect, test } from "vitest";
import { pin } from "../../../core/cache/operations.ts";
import { type Request, Sequence } from "../../../core/cache/request.ts";
import { prefixTriePreset } from "../../../policies/presets/prefix-trie.ts";
import { type SteppedRequest, stepped } from "../../support/stepped.ts";

/** Marked prefixes in a trie of blocks of 4 tokens, which match after the step that computes them. */
const run = (blocks: number, requests: SteppedRequest[], publish = "step") =>
  stepped({ scheduler: "prefix-groups", preset: prefixTriePreset, blocks, requests, rules: { publish } });

/** A request with a marked prefix. */
const marked = (name: string, tokens: number, input: number, output: number, arrival = 0): SteppedRequest => ({
  arrival,
  input,
  output,
  marked: tokens,
  prefix: [name, tokens],
});

describe("prefix groups", () => {
  // Blocks with the longest outputs: A and C 3, of which the prefix p is 2; B 2; D and E 4, of which q is 1; F 6.
  const requests = [
    marked("p", 8, 10, 2),
    { input: 6, output: 2 },
    marked("p", 8, 10, 2),
    marked("q", 4, 12, 4),
    marked("q", 4, 12, 4),
    { input: 20, output: 4 },
    marked("q", 4, 12, 1, 2),
  ];

  test("are admitted as a whole, those that need the most blocks first, if they fit; the first member computes the prefix", () => {
    // Of 14 blocks group q needs 1 + 3 + 3, F 6; p, which needs 2 + 1 + 1, and B do not fit any more. D computes q, E waits a
    // step for it. G arrives too late for this batch: the prefix was deleted after D and E, and G computes it again.
    const { steps, ends, cache } = run(14, requests);
    expect(steps).toEqual([
      "0: D prefill 0–12, F prefill 0–20",
      "1: E prefill 4–12",
      "2: D decode, F decode, E decode",
      "3: D decode, F decode, E decode",
      "4: D decode, F decode, E decode",
      "5: A prefill 0–10, B prefill 0–6, G prefill 0–12",
      "6: C prefill 8–10",
      "7: A decode, B decode, C decode",
    ]);
    expect(ends).toEqual({ A: 8, B: 8, C: 8, D: 5, E: 5, F: 5, G: 6 });
    expect(cache.index.blockCount).toBe(0);
  });

  test("are all admitted if they fit, and a prefix stays cached until the last request of its group has finished", () => {
    const stored: number[] = [];
    const { steps } = stepped({
      scheduler: "prefix-groups",
      preset: prefixTriePreset,
      blocks: 40,
      requests: requests.slice(0, 6),
      committed: ({ cache }) => stored.push(cache.index.blockCount),
    });
    expect(steps.slice(0, 3)).toEqual([
      "0: A prefill 0–10, B prefill 0–6, D prefill 0–12, F prefill 0–20",
      "1: C prefill 8–10, E prefill 4–12",
      "2: A decode, B decode, D decode, F decode, C decode, E decode",
    ]);
    // p, of 2 blocks, is deleted after A and C in step 2, q after D and E in step 4.
    expect(stored).toEqual([3, 3, 1, 1, 0]);
  });

  test("do not wait for a prefix that is published only when a request finishes", () => {
    expect(run(40, requests.slice(0, 3), "finish").steps).toEqual([
      "0: A prefill 0–10, B prefill 0–6",
      "1: C prefill 0–10",
      "2: A decode, B decode, C decode",
    ]);
  });

  test("that do not fit even alone are served last, one by one, and their prefix stays cached until no waiting request needs it", () => {
    // Each needs 5 blocks, the three together 2 + 3 · 3 of 6. D, which fits, is admitted first.
    const stored: number[] = [];
    const { steps } = stepped({
      scheduler: "prefix-groups",
      preset: prefixTriePreset,
      blocks: 6,
      requests: [marked("p", 8, 16, 2), marked("p", 8, 16, 1), marked("p", 8, 16, 2), { input: 12, output: 2 }],
      committed: ({ cache }) => stored.push(cache.index.blockCount),
    });
    expect(steps).toEqual([
      "0: D prefill 0–12",
      "1: D decode",
      "2: A prefill 0–16",
      "3: A decode",
      "4: B prefill 8–16",
      "5: C prefill 8–16",
      "6: C decode",
    ]);
    expect(stored).toEqual([0, 0, 2, 2, 2, 2, 0]);
  });

  test("refuse a request that never fits, and serve the others", () => {
    const { refused, finished } = run(4, [marked("p", 8, 17, 1), marked("p", 8, 12, 6), marked("p", 8, 9, 2)]);
    expect(refused).toEqual({
      A: "it needs more blocks than the cache has",
      B: "its answer needs more blocks than the cache has",
    });
    expect(finished).toEqual(["C"]);
  });

  test("if pinned blocks leave no room for a whole batch, it is refused, and the next batch begins in the same plan", () => {
    // Six blocks, two of them pinned while A runs. B needs all six blocks, C one.
    let first: Request | undefined;
    const { steps, refused } = stepped({
      scheduler: "prefix-groups",
      preset: prefixTriePreset,
      blocks: 6,
      rules: { publish: "step", "pin-blocks": 2 },
      requests: [marked("p", 8, 8, 2), { input: 20, output: 4, arrival: 1 }, { input: 3, output: 1, arrival: 1 }],
      planned: (plan) => {
        first ??= plan.items[0].sequence.request;
      },
      committed: ({ cache }, now) => {
        if (now === 1) expect(pin(cache, new Sequence(first!), now)).toBe("pinned");
      },
    });
    expect(steps).toEqual(["0: A prefill 0–8", "1: A decode", "2: C prefill 0–3 · refuses B"]);
    expect(Object.keys(refused)).toEqual(["B"]);
  });
});
