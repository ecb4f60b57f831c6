import { expect, test } from "vitest";
import type { Router } from "../../core/plugins/index.ts";
import { simulate } from "../../sim/simulation.ts";
import {
  linearCost,
  outcome,
  type Row,
  simulated,
  simulatedInBatches,
  simulationConfigOf,
  tracesOf,
} from "../support/simulated.ts";

const times = (simulation: ReturnType<typeof simulated>) => {
  const names = ["arrivalNs", "admittedNs", "firstTokenNs", "finishedNs"] as const;
  const columns = names.map((name) => outcome(simulation, name));
  return columns[0].map((_, id) => columns.map((column) => column[id]));
};

// A prefix that several prompts have in common.
const shared = [1, 2, 3, 4, 5, 6, 7, 8];

test("five requests, one at a time", () => {
  // A step takes 10 ns, 3 per prefill token and 1 per token that a decode reads. Blocks have 4 tokens.
  const cost = linearCost({ fixed: 10, prefillTokens: 3, decodeContextTokens: 1 });
  const rows: Row[] = [
    { at: 0, prompt: [...shared, 20], output: 3 },
    { at: 5, prompt: [...shared, 21, 22], output: 1 },
    { at: 50, prompt: 40, output: 1 },
    { at: 120, prompt: [...shared], output: 2 },
    { at: 500, prompt: 2, output: 2 },
  ];
  const simulation = simulated(rows, { scheduler: "naive", blocks: 6, cost });
  expect(times(simulation)).toEqual([
    // A computes 9 tokens: 10 + 27 = 37. Its second token reads 10: 20 more; its third reads 11: 21 more.
    [0, 0, 37, 78],
    // B has 8 of its 10 tokens as hits at 78, when A finishes, and computes two: 16.
    [5, 78, 94, 94],
    // C needs ten blocks of six; it is refused when it is the first in the queue, at 94.
    [50, -1, -1, 94],
    // D has a full hit, computes the last prompt token again (13), and reads 9 tokens for its second output token (19).
    [120, 120, 133, 152],
    // E computes two tokens (16) and reads 3 (13).
    [500, 500, 516, 529],
  ]);
  expect(outcome(simulation, "hitTokens")).toEqual([0, 8, 0, 8, 0]);
  expect(outcome(simulation, "refused")).toEqual([0, 0, 1, 0, 0]);
  expect([...simulation.replicas[0].refusals]).toEqual([["it needs more blocks than the cache has", 1]]);
  expect(simulation.replicas[0].busyNs).toBe(78 + 16 + 32 + 29);
  expect(simulation.replicas[0].stepCount).toBe(3 + 1 + 2 + 2);
});

test("five requests in one batch, prompts in chunks", () => {
  // A step of at most 8 tokens takes 100 ns and 1 per token.
  const cost = linearCost({ fixed: 100, prefillTokens: 1, decodeTokens: 1 });
  const rows: Row[] = [
    { at: 0, prompt: 4, output: 4 },
    { at: 0, prompt: 6, output: 2 },
    { at: 105, prompt: 10, output: 1 },
    { at: 150, prompt: 1, output: 1 },
    { at: 900, prompt: 3, output: 2 },
  ];
  const simulation = simulated(rows, {
    scheduler: "fcfs-chunked",
    schedulerOptions: { "max-num-batched-tokens": 8, "max-num-seqs": 4 },
    cost,
  });
  expect(times(simulation)).toEqual([
    //   0 –108: A's prompt, 4 of B's 6 prompt tokens.
    // 108 –216: a decode of A, 2 tokens of B, 5 of C's 10 (C arrived at 105).
    // 216 –324: decodes of A and B, which finishes, 5 tokens of C, which finishes, and D (arrived at 150): 8.
    // 324 –425: a decode of A, its fourth output token.
    [0, 0, 108, 425],
    [0, 0, 216, 324],
    [105, 108, 324, 324],
    [150, 216, 324, 324],
    // 900 – 1003 and – 1104.
    [900, 900, 1003, 1104],
  ]);
});

test("a request that arrives when a step ends is in the next step", () => {
  const rows: Row[] = [
    { at: 0, prompt: 1, output: 3 },
    { at: 20, prompt: 1, output: 1 },
  ];
  const simulation = simulated(rows, { scheduler: "fcfs-chunked", cost: linearCost({ fixed: 10 }) });
  expect(times(simulation)).toEqual([
    [0, 0, 10, 30],
    [20, 20, 30, 30],
  ]);
});

test("requests that arrive at one time are in one step, also if they are fed one by one", () => {
  const rows = Array.from({ length: 5 }, (): Row => ({ at: 7, prompt: 2, output: 1 }));
  const own = { scheduler: "fcfs-chunked", cost: linearCost({ fixed: 10, prefillTokens: 1 }) };
  for (const simulation of [simulated(rows, own), simulatedInBatches(rows, 1, own)])
    expect(times(simulation)).toEqual(rows.map(() => [7, 7, 27, 27]));
});

test("round robin over two replicas, with turns that follow another turn of their session", () => {
  const rows: Row[] = [
    { at: 0, prompt: 4, output: 1, session: 1 },
    { at: 0, prompt: 6, output: 1, session: 2 },
    { at: 1, prompt: 1, output: 1, session: 1, thinkNs: 5 },
    { at: 2, prompt: 1, output: 1, session: 2, thinkNs: 0 },
    { at: 3, prompt: 5, output: 1 },
  ];
  const simulation = simulated(rows, {
    replicas: 2,
    router: "round-robin",
    arrivals: { loop: "closed" },
    cost: linearCost({ fixed: 10, prefillTokens: 1 }),
  });
  expect(times(simulation)).toEqual([
    // In the order of arrival: A to the first replica, B to the second, E at 3 to the first.
    [0, 0, 14, 14],
    [0, 0, 16, 16],
    // C arrives at 14 + 5, after D, and so is routed to the first replica, which runs E until 29.
    [19, 29, 40, 40],
    // D arrives when B finishes.
    [16, 16, 27, 27],
    [3, 14, 29, 29],
  ]);
  expect(outcome(simulation, "replica")).toEqual([0, 1, 0, 1, 0]);
});

test("of steps that end at one time, that of the replica with the lowest number is committed first", () => {
  const rows: Row[] = [
    { prompt: 1, output: 4, session: 1 },
    { prompt: 1, output: 1, session: 2 },
    { prompt: 1, output: 1, session: 2 },
    { prompt: 1, output: 1, session: 1 },
  ];
  const simulation = simulated(rows, {
    ...{ replicas: 2, router: "round-robin", arrivals: { loop: "closed" } },
    // The fourth step of the first replica and the first one of the second end at 40.
    cost: (replica) => linearCost({ fixed: replica === 0 ? 10 : 40 }),
  });
  expect(outcome(simulation, "arrivalNs")).toEqual([0, 0, 40, 40]);
  // The turn that follows request 0 arrives first, although its id is the highest.
  expect(outcome(simulation, "replica")).toEqual([0, 1, 1, 0]);
});

test("of replicas that start a step at one time, the one with the lowest number plans first", () => {
  const order: number[] = [];
  const router: Router = {
    route({ id }) {
      order.push(id);
      return id === 0 ? 1 : 0;
    },
  };
  // The first two are too long and refused when they are planned; the turns after them arrive at the same time.
  const rows: Row[] = [1, 2, 1, 2].map((session, id) => ({ prompt: id < 2 ? 9 : 1, session }));
  const config = simulationConfigOf({ replicas: 2, blocks: 2, arrivals: { loop: "closed" } });
  const simulation = simulate(tracesOf(rows)[0], { ...config, router });
  expect(outcome(simulation, "refused")).toEqual([1, 1, 0, 0]);
  expect(order).toEqual([0, 1, 3, 2]);
});
