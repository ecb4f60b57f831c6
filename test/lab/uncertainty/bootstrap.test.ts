import { expect, test } from "vitest";
import { type Random, seededRandom } from "../../../core/random.ts";
import { Bootstrap } from "../../../lab/uncertainty/bootstrap.ts";

/** Sessions of lengths that differ by orders of magnitude, in which two policies have correlated hits. */
function pair(random: Random, sessions: number) {
  const gains = new Float64Array(sessions);
  const lookups = new Float64Array(sessions);
  for (let s = 0; s < sessions; s++) {
    const normal = Math.sqrt(-2 * Math.log(1 - random.unit())) * Math.cos(2 * Math.PI * random.unit());
    const length = Math.exp(4 + normal);
    const share = random.unit() ** 2;
    const otherShare = Math.max(0, share - 0.4 * random.unit() ** 3) + (length > 100 ? 0.05 : 0);
    lookups[s] = length;
    gains[s] = length * (share - otherShare);
  }
  return { gains, lookups };
}

const sum = (values: Float64Array) => values.reduce((total, value) => total + value, 0);

/** The sums of 12 groups of neighbours. */
function grouped(values: Float64Array): Float64Array {
  const sums = new Float64Array(12);
  for (const [s, value] of values.entries()) sums[Math.floor((s * 12) / values.length)] += value;
  return sums;
}

test.each([160, 640])(
  "intervals cover the true difference in 93 to 97 of 100 among 1,000 pairs of %i sessions",
  (n) => {
    const population = pair(seededRandom(99), 2_000_000);
    const truth = sum(population.gains) / sum(population.lookups);
    const random = seededRandom(5);
    const bootstrap = new Bootstrap(12, 1);
    let covered = 0;
    for (let i = 0; i < 1000; i++) {
      const { gains, lookups } = pair(random, n);
      const { low, high, value } = bootstrap.ratio(grouped(gains), grouped(lookups))!;
      expect(low).toBeLessThanOrEqual(value);
      expect(high).toBeGreaterThanOrEqual(value);
      if (low <= truth && truth <= high) covered++;
    }
    expect(covered).toBeGreaterThanOrEqual(930);
    expect(covered).toBeLessThanOrEqual(970);
  },
);

test("equal hits in every session are a difference of 0 without uncertainty", () => {
  const zeros = new Float64Array(20);
  expect(
    new Bootstrap(20, 1).ratio(
      zeros,
      zeros.map((_, g) => 1 + g),
    ),
  ).toEqual({ value: 0, low: 0, high: 0 });
});

test("fewer than ten sessions have no interval", () => {
  expect(new Bootstrap(9, 1).ratio(new Float64Array(9).fill(1), new Float64Array(9).fill(2))).toBeUndefined();
});

test("a difference in a single session has a finite interval that contains 0", () => {
  const gains = new Float64Array(12);
  gains[4] = 3;
  const { value, low, high } = new Bootstrap(12, 1).ratio(
    gains,
    gains.map(() => 10),
  )!;
  expect(value).toBe(3 / 120);
  expect(low).toBeLessThanOrEqual(0);
  expect(low).toBeGreaterThanOrEqual(-1);
  expect(high).toBe(1);
});
