import fc from "fast-check";
import { expect, test } from "vitest";
import { TimeSeries } from "../../../core/serving/time-series.ts";

const intervalNs = 1_000_000;
const levels = { waiting: 1, running: 2, freeBlocks: 3, privateBlocks: 4, idleBlocks: 5, heldBlocks: 6, busy: 1 };

test("steps are counted in the interval in which they end; one that ends at the limit of two is in the later one", () => {
  const length = fc.oneof(
    fc.constantFrom(intervalNs / 2, intervalNs, 3 * intervalNs),
    fc.integer({ min: 1, max: 900_000 }),
  );
  const steps = fc.array(length, { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(fc.array(steps, { minLength: 1, maxLength: 6 }), fc.nat(2 * intervalNs), (all, startNs) => {
      const series = new TimeSeries();
      series.begin(startNs);
      const expected = new Map<number, number>();
      let at = startNs;
      for (const lengths of all) {
        const ends = Float64Array.from(lengths, (each) => (at += each));
        series.addSteps(ends, ends.length, 3, 2);
        for (const end of ends) {
          const interval = Math.floor((end - startNs) / intervalNs);
          expected.set(interval, (expected.get(interval) ?? 0) + 1);
        }
      }
      const { steps: counted, computedTokens, generatedTokens } = series.counts;
      expect(series.intervalNs).toBe(intervalNs);
      for (let i = 0; i < series.count; i++) {
        const count = expected.get(i) ?? 0;
        expect([counted[i], computedTokens[i], generatedTokens[i]]).toEqual([count, 3 * count, 2 * count]);
      }
      expect(series.count).toBe(Math.max(...expected.keys()) + 1);
    }),
  );
});

test("levels are integrated over the intervals that they span, from the start of the series on", () => {
  const series = new TimeSeries();
  series.begin(intervalNs);
  series.addLevels(levels, 0, 1.25 * intervalNs);
  series.addLevels(levels, 1.25 * intervalNs, 3 * intervalNs);
  series.addLevels(levels, 2 * intervalNs, 2 * intervalNs);
  expect(series.count).toBe(2);
  expect([...series.levels.running.subarray(0, 3)]).toEqual([2 * intervalNs, 2 * intervalNs, 0]);
  expect([...series.levels.heldBlocks.subarray(0, 3)]).toEqual([6 * intervalNs, 6 * intervalNs, 0]);
  expect([series.lengthNs(0), series.lengthNs(1)]).toEqual([intervalNs, intervalNs]);
  series.addLevels(levels, 3 * intervalNs, 3.5 * intervalNs);
  expect(series.lengthNs(2)).toBe(intervalNs / 2);
});
