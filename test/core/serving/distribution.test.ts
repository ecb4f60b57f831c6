import { expect, test } from "vitest";
import { distribution, median, quantile } from "../../../core/serving/distribution.ts";

test("quantiles are interpolated linearly between ranks", () => {
  // The values 0, 10 … 1000 in another order: quantile q is 1000 · q.
  const values = Float64Array.from({ length: 101 }, (_, i) => ((i * 37) % 101) * 10);
  expect(distribution(values)).toEqual({ mean: 500, p50: 500, p90: 900, p95: 950, p99: 990, max: 1000 });
  expect(distribution(Float64Array.of(3, 1))).toEqual({ mean: 2, p50: 2, p90: 2.8, p95: 2.9, p99: 2.98, max: 3 });
  expect(quantile(Float64Array.of(7), 0.99)).toBe(7);
});

test("without values there is no distribution, and no median", () => {
  expect(distribution(new Float64Array(0))).toBe(null);
  expect(median([])).toBeNaN();
  expect(median([5, 1, 2])).toBe(2);
  expect(median([4, 1])).toBe(2.5);
});
