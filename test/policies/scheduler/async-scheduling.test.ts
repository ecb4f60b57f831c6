import fc from "fast-check";
import { expect, test } from "vitest";
import { costs, everythingOf, linearCost, outcome, type Row, simulated, workloads } from "../../support/simulated.ts";

const run = (rows: readonly Row[], ahead: 0 | 1, maxNumSeqs = 8) =>
  simulated(rows, {
    scheduler: "fcfs-chunked",
    schedulerOptions: { "async-scheduling": ahead, "max-num-seqs": maxNumSeqs },
    cost: linearCost({ fixed: 10 }),
  });

test("a request that arrives during a step is not in the next one, which is planned already, but in the one after it", () => {
  const rows = [
    { at: 0, prompt: 4, output: 5 },
    { at: 15, prompt: 4, output: 1 },
  ];
  expect(outcome(run(rows, 0), "admittedNs")).toEqual([0, 20]);
  expect(outcome(run(rows, 1), "admittedNs")).toEqual([0, 30]);
  expect(outcome(run(rows, 1), "firstTokenNs")).toEqual([10, 40]);
});

test("an idle engine plans a step for a new request at once", () => {
  const rows = [
    { at: 0, prompt: 4, output: 2 },
    { at: 15, prompt: 4 },
    { at: 100, prompt: 4 },
  ];
  expect(outcome(run(rows, 1), "admittedNs")).toEqual([0, 20, 100]);
});

test("a finished request counts in max-num-seqs for one more step", () => {
  const rows = [
    { at: 0, prompt: 4, output: 2 },
    { at: 0, prompt: 4, output: 9 },
    { at: 0, prompt: 4 },
  ];
  expect(outcome(run(rows, 0, 2), "admittedNs")).toEqual([0, 0, 20]);
  expect(outcome(run(rows, 1, 2), "admittedNs")).toEqual([0, 0, 30]);
});

test("repeated steps are equal to planned ones", () => {
  fc.assert(
    fc.property(workloads(), costs, fc.integer({ min: 1, max: 5 }), (rows, coefficients, maxNumSeqs) => {
      const both = [false, true].map((everyStep) =>
        simulated(rows, {
          scheduler: "fcfs-chunked",
          schedulerOptions: { "async-scheduling": 1, "max-num-seqs": maxNumSeqs, "max-num-batched-tokens": 16 },
          cost: linearCost(coefficients),
          everyStep,
          events: true,
        }),
      );
      expect(everythingOf(both[0])).toEqual(everythingOf(both[1]));
      expect(outcome(both[0], "finishedNs").every((ns) => ns >= 0)).toBe(true);
    }),
    { numRuns: 100 },
  );
});
