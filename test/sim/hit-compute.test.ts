import { expect, test } from "vitest";
import { linearCost, outcome, type Row, simulated } from "../support/simulated.ts";

const shared = [1, 2, 3, 4, 5, 6, 7, 8];
const rows: Row[] = [
  { at: 0, prompt: [...shared, 20], output: 3 },
  { at: 5, prompt: [...shared, 21, 22], output: 1 },
  { at: 120, prompt: [...shared], output: 2 },
];
// A step takes 10 ns and 3 ns per prefill token.
const cost = linearCost({ fixed: 10, prefillTokens: 3 });
const finished = (recompute: boolean) => {
  const rules = { "hit-compute": recompute ? "recompute" : "skip" };
  const simulation = simulated(rows, { scheduler: "naive", blocks: 6, cost, rules, audit: true });
  return {
    finishedNs: outcome(simulation, "finishedNs"),
    hitTokens: outcome(simulation, "hitTokens"),
    cached: simulation.replicas[0].cache.index.blockCount,
  };
};

test("with hit-compute=recompute hits share memory, and all tokens of a prompt are computed", () => {
  const [skip, recompute] = [finished(false), finished(true)];
  expect(recompute.hitTokens).toEqual([0, 8, 8]);
  expect(recompute.hitTokens).toEqual(skip.hitTokens);
  expect(recompute.cached).toBe(skip.cached);
  // A computes 9 tokens (37 ns) and decodes twice (20 ns). B computes 2 tokens, C the last one again and one decode.
  expect(skip.finishedNs).toEqual([57, 57 + 16, 120 + 13 + 10]);
  // B computes 10 tokens, C 8.
  expect(recompute.finishedNs).toEqual([57, 57 + 40, 120 + 34 + 10]);
});

test("chunks of a prompt whose hits are computed again stay within the admitted blocks", () => {
  const long = Array.from({ length: 40 }, (_, i) => i + 1);
  const requests: Row[] = [
    { at: 0, prompt: [...long, 100], output: 2 },
    { at: 5000, prompt: [...long, 101, 102, 103, 104, 105, 106, 107, 108, 109], output: 2 },
  ];
  for (const scheduler of ["fcfs-chunked", "lpm", "tgi-queue", "efficient-router", "fcfs"]) {
    const rules = { "hit-compute": "recompute" };
    const options = scheduler === "fcfs-chunked" ? { schedulerOptions: { "max-num-batched-tokens": 8 } } : {};
    const simulation = simulated(requests, { scheduler, blocks: 30, rules, cost, audit: true, ...options });
    expect(outcome(simulation, "hitTokens"), scheduler).toEqual([0, 40]);
    expect(outcome(simulation, "refused"), scheduler).toEqual([0, 0]);
  }
});
