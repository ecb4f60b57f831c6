import { expect, test } from "vitest";
import { seededRandom } from "../../core/random.ts";
import { linearCost, outcome, type Row, simulated } from "../support/simulated.ts";

/** Poisson arrivals with a mean gap of `meanNs`. */
function poisson(count: number, meanNs: number, seed: number): number[] {
  const random = seededRandom(seed);
  let at = 0;
  return Array.from({ length: count }, () => (at += Math.round(-Math.log(1 - random.unit()) * meanNs)));
}

/** One server with a constant service time. */
const served = (arrivals: readonly number[], serviceNs: number) =>
  simulated(
    arrivals.map((at): Row => ({ at, prompt: 1 })),
    { scheduler: "naive", index: "none", cost: linearCost({ fixed: serviceNs }) },
  );

test("one server, constant service time: every wait is that of Lindley's recursion, to the nanosecond", () => {
  const serviceNs = 1_000_003;
  const arrivals = poisson(3000, 1_300_000, 5);
  const simulation = served(arrivals, serviceNs);
  const waits: number[] = [0];
  for (let i = 1; i < arrivals.length; i++)
    waits.push(Math.max(0, waits[i - 1] + serviceNs - (arrivals[i] - arrivals[i - 1])));
  expect(outcome(simulation, "admittedNs")).toEqual(arrivals.map((at, i) => at + waits[i]));
  expect(outcome(simulation, "finishedNs")).toEqual(arrivals.map((at, i) => at + waits[i] + serviceNs));
});

test.each([0.3, 0.6, 0.8])("M/D/1 at a load of %d has the mean wait of the Pollaczek–Khinchine formula", (load) => {
  const serviceNs = 1_000_000;
  const arrivals = poisson(60_000, serviceNs / load, 11);
  const admitted = outcome(served(arrivals, serviceNs), "admittedNs");
  const meanNs = admitted.reduce((sum, at, i) => sum + (at - arrivals[i]), 0) / arrivals.length;
  const expectedNs = (load * serviceNs) / (2 * (1 - load));
  expect(Math.abs(meanNs / expectedNs - 1)).toBeLessThan(0.05);
});
