import { expect, test } from "vitest";
import { seededRandom } from "../../core/random.ts";
import { exp, exponential, geometric, log, logNormal, normal, zipf } from "../../traces/random.ts";

const count = 200_000;
function drawn(draw: () => number): { mean: number; deviation: number; values: number[] } {
  const values = Array.from({ length: count }, draw);
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count;
  return { mean, deviation: Math.sqrt(variance), values };
}

test("exp and log are correct to the last digits", () => {
  for (const x of [-20, -3.7, -1, 0, 1e-9, 0.5, 2, 10]) expect(exp(x) / Math.exp(x)).toBeCloseTo(1, 12);
  for (const x of [1, 1.5, 2, 3, 10, 12345.678]) expect(log(x)).toBeCloseTo(Math.log(x), 12);
});

test("samples have the expected mean, deviation and tail", () => {
  const random = seededRandom(7);
  const pauses = drawn(() => exponential(random));
  expect(pauses.mean).toBeCloseTo(1, 1.7);
  expect(pauses.deviation).toBeCloseTo(1, 1.7);
  expect(pauses.values.filter((value) => value > 3).length / count).toBeCloseTo(Math.exp(-3), 2.3);
  const bell = drawn(() => normal(random));
  expect(bell.mean).toBeCloseTo(0, 1.7);
  expect(bell.deviation).toBeCloseTo(1, 1.7);
  const lengths = drawn(() => logNormal(random, 100, 0.8));
  expect(lengths.mean / 100).toBeCloseTo(1, 1.7);
  expect(lengths.values.filter((value) => value < 100 * Math.exp(-0.32)).length / count).toBeCloseTo(0.5, 1.7);
  const turns = drawn(() => geometric(random, 4));
  expect(turns.mean).toBeCloseTo(4, 1);
  expect(turns.values.filter((value) => value === 1).length / count).toBeCloseTo(1 / 4, 1.7);
});

test("the k-th of a Zipf distribution is drawn k^−exponent as often as the first", () => {
  const draw = zipf(seededRandom(3), 5, 1.5);
  const counts = [0, 0, 0, 0, 0];
  for (let i = 0; i < count; i++) counts[draw()]++;
  counts.forEach((seen, k) => {
    expect(seen / counts[0]).toBeCloseTo((k + 1) ** -1.5, 1.7);
  });
});
