import { describe, expect, test } from "vitest";
import { outcome, simulated } from "../../support/simulated.ts";
import { stepped } from "../../support/stepped.ts";

// Blocks have four tokens, and can be hit from their allocation on.

describe("fcfs-chunked", () => {
  test("chunks prompts at the end of the token budget, and continues them before it admits other requests", () => {
    const { steps, finished, refused } = stepped({
      scheduler: "fcfs-chunked",
      options: { "max-num-batched-tokens": 8 },
      blocks: 8,
      requests: [
        { input: 10, output: 3 },
        { input: 5, output: 2 },
        { arrival: 1, input: 12, output: 2 },
        { arrival: 1, input: 3, output: 4 },
        { arrival: 2, input: 33, output: 1 }, // nine blocks
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8",
      "1: A prefill 8–10, B prefill 0–5, C prefill 0–1", // 2 + 5 + 1
      "2: A decode, B decode, C prefill 1–7", // 1 + 1 + 6, no budget left for D
      "3: A decode, C prefill 7–12, D prefill 0–2", // 1 + 5 + 2
      "4: C decode, D prefill 2–3 · refuses E",
      "5: D decode",
      "6: D decode",
      "7: D decode",
    ]);
    expect(finished).toEqual(["B", "A", "C", "D"]);
    expect(refused).toEqual({ E: "it needs more blocks than the cache has" });
  });

  test("the request admitted last is preempted, none is admitted in that step, and the first waiting request blocks the others", () => {
    const { steps, ends } = stepped({
      scheduler: "fcfs-chunked",
      options: { "max-num-seqs": 3 },
      blocks: 5,
      rules: { publish: "step" },
      requests: [
        { input: 8, output: 5 },
        { input: 7, output: 5 },
        { input: 4, output: 2 },
        { input: 8, output: 1 },
        { arrival: 3, input: 2, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8, B prefill 0–7, C prefill 0–4", // 2 + 2 + 1 blocks, max-num-seqs is 3
      "1: A decode, B decode · preempts C", // A's ninth token is stored in C's block
      "2: A decode · preempts B", // no block for B's ninth token, and B itself was admitted last
      "3: A decode", // B needs three blocks, two are available; C, behind it, needs only two
      "4: A decode",
      "5: B prefill 4–9, C prefill 0–5", // only B's first block is still cached
      "6: B decode, D prefill 0–8",
      "7: B decode, E prefill 0–2", // no block for E before D has finished
    ]);
    expect(ends).toEqual({ A: 5, C: 6, D: 7, B: 8, E: 8 });
  });

  test("a threshold for long prompts leaves budget for others in each step", () => {
    const { steps } = stepped({
      scheduler: "fcfs-chunked",
      options: { "max-num-batched-tokens": 16, "long-prefill-token-threshold": 4 },
      blocks: 8,
      requests: [
        { input: 10, output: 1 },
        { input: 6, output: 2 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4, B prefill 0–4",
      "1: A prefill 4–8, B prefill 4–6",
      "2: A prefill 8–10, B decode",
    ]);
  });

  const tight = {
    scheduler: "fcfs-chunked",
    blocks: 4,
    requests: [
      { input: 8, output: 3 },
      { input: 12, output: 1 },
    ],
  };

  test("a prompt whose first chunk fits is admitted, and may be preempted later", () => {
    expect(stepped({ ...tight, options: { "max-num-batched-tokens": 12 } }).steps).toEqual([
      "0: A prefill 0–8, B prefill 0–4",
      "1: A decode · preempts B", // the last block is allocated for A; B needs two more
      "2: A decode",
      "3: B prefill 4–12",
    ]);
  });

  test("with reserve-full-isl a prompt waits until all its blocks are available", () => {
    const options = { "max-num-batched-tokens": 12, "reserve-full-isl": 1 };
    expect(stepped({ ...tight, options }).steps).toEqual([
      "0: A prefill 0–8",
      "1: A decode",
      "2: A decode",
      "3: B prefill 0–12",
    ]);
  });

  test("a watermark keeps blocks available for running requests, and does not apply if none runs", () => {
    const { steps } = stepped({
      scheduler: "fcfs-chunked",
      options: { watermark: 0.2 }, // two of ten blocks
      blocks: 10,
      requests: [
        { input: 36, output: 1 }, // nine blocks, but no request runs
        { input: 16, output: 2 },
        { input: 16, output: 1 }, // leaves two of ten
        { input: 4, output: 1 }, // would leave one
      ],
    });
    expect(steps).toEqual(["0: A prefill 0–36", "1: B prefill 0–16, C prefill 0–16", "2: B decode, D prefill 0–4"]);
  });

  test("a request whose output does not fit is refused when it runs alone", () => {
    const { steps, refused } = stepped({
      scheduler: "fcfs-chunked",
      blocks: 2,
      requests: [
        { input: 6, output: 4 },
        { input: 1, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–6",
      "1: A decode",
      "2: A decode",
      "3: B prefill 0–1 · refuses A", // A's ninth token
    ]);
    expect(refused).toEqual({ A: "its answer needs more blocks than the cache has" });
  });
});

describe("priority", () => {
  test("admits the highest priority first; preempts the lowest priority when a request needs a block", () => {
    const { steps, ends, refused } = stepped({
      scheduler: "priority",
      options: { "max-num-seqs": 2 },
      blocks: 4,
      requests: [
        { input: 8, output: 4, priority: 0 },
        { input: 4, output: 6, priority: 1 },
        { arrival: 1, input: 4, output: 2, priority: 2 },
        { arrival: 1, input: 4, output: 1, priority: 1 },
        { arrival: 1, input: 24, output: 1, priority: 2 },
      ],
    });
    expect(steps).toEqual([
      "0: B prefill 0–4, A prefill 0–8",
      "1: B decode · preempts A", // the last block is allocated for B; none for A's ninth token, and A has the lowest priority
      "2: B decode, C prefill 0–4 · refuses E", // max-num-seqs is 2
      "3: B decode, C decode",
      "4: B decode, D prefill 0–4",
      "5: B decode", // A needs three blocks, B has three
      "6: A prefill 0–9", // both of A's blocks were allocated for C
      "7: A decode",
      "8: A decode",
    ]);
    expect(ends).toEqual({ C: 4, D: 5, B: 6, A: 9 });
    expect(refused).toEqual({ E: "it needs more blocks than the cache has" });
  });

  test("a request that is in the step already may be preempted", () => {
    const { steps } = stepped({
      scheduler: "priority",
      blocks: 4,
      requests: [
        { input: 4, output: 8, priority: 0 },
        { arrival: 1, input: 8, output: 3, priority: 2 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4",
      "1: A decode, B prefill 0–8", // two blocks each
      "2: B decode · preempts A", // A's token was scheduled, and B's ninth needs a block
      "3: B decode",
      "4: A prefill 4–6", // its second token again; its first block is still cached
      ...[5, 6, 7, 8, 9].map((at) => `${at}: A decode`),
    ]);
  });
});

describe("session-priority", () => {
  test("the next turn of an older session preempts the youngest session", () => {
    const { steps, ends } = stepped({
      scheduler: "session-priority",
      options: { "max-num-seqs": 2 },
      blocks: 20,
      requests: [
        { input: 4, output: 3, session: 1 },
        { input: 4, output: 8, session: 2 },
        { arrival: 1, input: 4, output: 2, session: 3 },
        { arrival: 4, input: 4, output: 2, session: 1 },
        { arrival: 4, input: 4, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–4, B prefill 0–4",
      "1: A decode, B decode", // C is younger than both
      "2: A decode, B decode",
      "3: B decode, C prefill 0–4",
      "4: B decode, D prefill 0–4 · preempts C", // D is of A's session
      "5: B decode, D decode",
      "6: B decode, C decode", // all but C's last token is cached; E came after it
      "7: B decode, E prefill 0–4",
    ]);
    expect(ends).toEqual({ A: 3, D: 6, C: 7, B: 8, E: 8 });
  });

  test("a request of higher priority preempts others if that frees enough blocks", () => {
    const { steps } = stepped({
      scheduler: "session-priority",
      blocks: 4,
      requests: [
        { input: 8, output: 4, priority: 0 },
        { arrival: 1, input: 12, output: 1, priority: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8",
      "1: B prefill 0–12 · preempts A", // B needs three; one of A's three stays cached
      "2: A prefill 4–9",
      "3: A decode",
      "4: A decode",
    ]);
  });

  test("no request is preempted if that does not free enough blocks", () => {
    const { steps } = stepped({
      scheduler: "session-priority",
      blocks: 5,
      requests: [
        { input: 8, output: 3, priority: 2 },
        { input: 4, output: 3, priority: 0 },
        { arrival: 1, input: 12, output: 1, priority: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: A prefill 0–8, B prefill 0–4",
      "1: A decode, B decode", // A has three blocks and B two: with B's, C would still need one more
      "2: A decode, B decode",
      "3: C prefill 0–12",
    ]);
  });
});

test("session-priority: equal session ids in two namespaces are two sessions", () => {
  const rows = [
    { at: 0, prompt: 4, output: 3, session: 1, namespace: 1 },
    { at: 1, prompt: 4, output: 8, session: 2, namespace: 1 },
    { at: 5, prompt: 4, output: 1, session: 1, namespace: 2 },
  ];
  const run = (namespaces: boolean) =>
    outcome(
      simulated(namespaces ? rows : rows.map((row) => ({ ...row, namespace: 0 })), {
        scheduler: "session-priority",
        schedulerOptions: { "max-num-seqs": 1 },
      }),
      "finishedNs",
    );
  expect(run(true)).toEqual([3, 11, 12]);
  // The next turn of the first session preempts the second one for a step.
  expect(run(false)).toEqual([3, 12, 6]);
});

describe("shortest-prefill-first", () => {
  test("cached tokens of a prompt do not count in its length", () => {
    const { steps } = stepped({
      scheduler: "shortest-prefill-first",
      options: { "max-num-batched-tokens": 8 },
      blocks: 32,
      requests: [
        { input: 12, output: 2 },
        { input: 9, output: 1, prefix: ["P", 8] },
        { input: 9, output: 1, prefix: ["P", 8] },
        { input: 5, output: 1 },
        { arrival: 1, input: 3, output: 1 },
      ],
    });
    expect(steps).toEqual([
      "0: D prefill 0–5, B prefill 0–3", // uncached tokens: D 5, then B 9, before C 9 and A 12
      "1: B prefill 3–9, C prefill 8–9, E prefill 0–1", // both blocks of P are cached now: C has 1 uncached token, E 3
      "2: E prefill 1–3, A prefill 0–6",
      "3: A prefill 6–12",
      "4: A decode",
    ]);
  });

  const waiting = {
    scheduler: "shortest-prefill-first",
    blocks: 32,
    requests: [
      { input: 12, output: 1 },
      { input: 4, output: 3 },
      { arrival: 3, input: 6, output: 1 },
    ],
  };

  test("a long prompt waits for all shorter ones", () => {
    const { finished } = stepped({ ...waiting, options: { "max-num-seqs": 1 } });
    expect(finished).toEqual(["B", "C", "A"]);
  });

  test("with aging a prompt counts as shorter the longer it waits", () => {
    // Two tokens per step of one nanosecond: at 3, A counts as 6, like C, and arrived first.
    const options = { "max-num-seqs": 1, "aging-tokens-per-s": 2e9 };
    expect(stepped({ ...waiting, options }).finished).toEqual(["B", "A", "C"]);
  });

  test("only the first `window` waiting requests are compared", () => {
    const requests = [8, 6, 4].map((input) => ({ input, output: 1 }));
    const run = (window: number) =>
      stepped({ ...waiting, requests, options: { "max-num-seqs": 1, window } }).finished.join("");
    expect([1, 2, 3].map(run)).toEqual(["ABC", "BCA", "CBA"]);
  });
});
