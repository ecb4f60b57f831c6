import { expect, test } from "vitest";
import { stepped } from "../../support/stepped.ts";

// Blocks have four tokens, and can be hit from their allocation on.

const five = {
  scheduler: "fcfs",
  blocks: 6,
  requests: [
    { input: 7, output: 6 },
    { input: 8, output: 4 },
    { input: 4, output: 3 },
    { arrival: 2, input: 6, output: 2 },
    { arrival: 2, input: 30, output: 1 },
  ],
};

test("prefill precedes decode, and a preempted request is recomputed", () => {
  const { steps, ends, refused } = stepped({ ...five, options: { watermark: 0 } });
  expect(steps).toEqual([
    "0: A prefill 0–7, B prefill 0–8, C prefill 0–4", // 2 + 2 + 1 blocks
    "1: A decode, B decode · preempts C", // the last block is allocated for B's ninth token, none is left for C's fifth
    "2: A decode, B decode", // C needs two; C's former block is allocated for A's ninth token
    "3: A decode, B decode",
    "4: C prefill 0–5", // D needs two blocks, one is available
    "5: A decode, C decode",
    "6: D prefill 0–6 · refuses E",
    "7: A decode, D decode",
  ]);
  expect(ends).toEqual({ B: 4, C: 6, A: 8, D: 8 });
  expect(refused).toEqual({ E: "it needs more blocks than the cache has" });
});

test("with swap a preempted request is swapped out, and swapped in before new requests are admitted", () => {
  const { steps, ends, replica } = stepped({ ...five, options: { watermark: 0, swap: 1 }, hostBlocks: 1 });
  expect(steps).toEqual([
    "0: A prefill 0–7, B prefill 0–8, C prefill 0–4",
    "1: A decode, B decode · preempts C · swaps out C", // four tokens, one block
    "2: A decode, B decode",
    "3: A decode, B decode",
    "4: A decode, C decode · swaps in C", // no prefill step for it, and A continues
    "5: A decode, C decode", // C runs again, D needs two blocks and one is available
    "6: D prefill 0–6 · refuses E",
    "7: D decode",
  ]);
  expect(ends).toEqual({ B: 4, A: 6, C: 6, D: 8 });
  expect(replica.freeHostBlocks).toBe(1);
});

test("without host memory a preempted request is recomputed", () => {
  const swapping = stepped({ ...five, options: { watermark: 0, swap: 1 }, hostBlocks: 0 });
  expect(swapping.steps).toEqual(stepped({ ...five, options: { watermark: 0 } }).steps);
});

test("a prefill step ends before a prompt that exceeds the token budget; a prompt that never fits is computed alone", () => {
  const { steps } = stepped({
    scheduler: "fcfs",
    options: { "max-num-batched-tokens": 10 },
    blocks: 40,
    requests: [
      { input: 6, output: 2 },
      { input: 5, output: 1 },
      { input: 4, output: 1 },
      { input: 25, output: 1 },
      { input: 12, output: 1, prefix: ["P", 8] },
      { input: 10, output: 1, prefix: ["P", 8] }, // eight of them are cached by then
    ],
  });
  expect(steps).toEqual([
    "0: A prefill 0–6",
    "1: B prefill 0–5, C prefill 0–4",
    "2: D prefill 0–25",
    "3: E prefill 0–12",
    "4: F prefill 8–10",
    "5: A decode",
  ]);
});

test("cached tokens of a prompt do not count in the token budget", () => {
  const { steps } = stepped({
    scheduler: "fcfs",
    options: { "max-num-batched-tokens": 14 },
    blocks: 40,
    requests: [
      { input: 10, output: 1, prefix: ["P", 8] },
      { input: 12, output: 1, prefix: ["P", 8] }, // four are computed
      { input: 1, output: 1 },
    ],
  });
  expect(steps).toEqual(["0: A prefill 0–10, B prefill 8–12", "1: C prefill 0–1"]);
});

test("an admission leaves the watermark available, and at most max-num-seqs requests run", () => {
  const requests = [8, 8, 4, 4].map((input) => ({ input, output: 2 }));
  const { steps } = stepped({
    scheduler: "fcfs",
    options: { watermark: 0.5, "max-num-seqs": 3 },
    blocks: 10,
    requests,
  });
  expect(steps).toEqual([
    "0: A prefill 0–8, B prefill 0–8, C prefill 0–4", // five of ten blocks are available, max-num-seqs is reached
    "1: A decode, B decode, C decode",
    "2: D prefill 0–4",
    "3: D decode",
  ]);
  const fewer = stepped({ scheduler: "fcfs", options: { watermark: 0.6 }, blocks: 10, requests });
  expect(fewer.steps[0]).toBe("0: A prefill 0–8, B prefill 0–8"); // six of ten
});
