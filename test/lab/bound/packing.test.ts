import fc from "fast-check";
import { expect, test } from "vitest";
import { cheapestFlow } from "../../../lab/bound/cheapest-flow.ts";
import { dualValue, type Packing, uniformBound } from "../../../lab/bound/packing.ts";
import { packingBound, searched } from "../../../lab/bound/prices.ts";
import { runs } from "../../laws/all-plugins.ts";

interface Interval {
  readonly start: number;
  readonly length: number;
  readonly copies: number;
  readonly weight: number;
}

function packingOf(free: readonly number[], intervals: readonly Interval[]): Packing {
  const within = intervals
    .map(({ start, length, ...rest }) => ({ ...rest, start: start % (free.length - 1), length }))
    .map((one) => ({ ...one, end: Math.min(free.length - 1, one.start + one.length) }))
    .sort((a, b) => a.start - b.start);
  return {
    free: Float64Array.from(free),
    start: Uint32Array.from(within, ({ start }) => start),
    end: Uint32Array.from(within, ({ end }) => end),
    copies: Uint32Array.from(within, ({ copies }) => copies),
    weight: Float64Array.from(within, ({ weight }) => weight),
  };
}

const packings = (weight: fc.Arbitrary<number>, size = 8): fc.Arbitrary<Packing> =>
  fc
    .tuple(
      fc.array(fc.nat(4), { minLength: 2, maxLength: size }),
      fc.array(
        fc.record({
          start: fc.nat(size),
          length: fc.integer({ min: 1, max: size }),
          copies: fc.integer({ min: 1, max: 3 }),
          weight,
        }),
        { minLength: 1, maxLength: size },
      ),
    )
    .map(([free, intervals]) => packingOf(free, intervals));

/** The largest value, by trying every number of copies of each interval. */
function largestValue({ free, start, end, copies, weight }: Packing): number {
  const left = [...free];
  const from = (i: number): number => {
    if (i === start.length) return 0;
    let best = 0;
    for (let kept = 0; kept <= copies[i]; kept++) {
      for (let t = start[i] + 1; t < end[i]; t++) left[t] -= kept;
      if (left.every((slots) => slots >= 0)) best = Math.max(best, kept * weight[i] + from(i + 1));
      for (let t = start[i] + 1; t < end[i]; t++) left[t] += kept;
    }
    return best;
  };
  return from(0);
}

test("of copies with equal weight, those that end last are dropped, and the prices prove that no packing is larger", () => {
  const check = (packing: Packing) => {
    const { bound, reached } = uniformBound(packing);
    expect({ bound, reached }).toEqual({ bound: reached, reached: largestValue(packing) });
  };
  fc.assert(fc.property(packings(fc.constant(3)), check), { numRuns: runs(400) });
});

test("the prices of a cheapest flow prove the largest value of copies with any weights", () => {
  const check = (packing: Packing) => {
    const largest = largestValue(packing);
    expect(dualValue(packing, cheapestFlow(packing))).toBeCloseTo(largest, 6);
    expect(packingBound(packing).bound).toBeCloseTo(largest, 6);
  };
  fc.assert(fc.property(packings(fc.integer({ min: 1, max: 5 })), check), { numRuns: runs(400) });
  fc.assert(fc.property(packings(fc.double({ min: 0.01, max: 1, noNaN: true })), check), { numRuns: runs(100) });
});

test("the largest value is between the bound that is found for large problems and the packing that it states", () => {
  let gap = 0;
  let largest = 0;
  const check = (packing: Packing) => {
    const exact = dualValue(packing, cheapestFlow(packing));
    const { bound, reached, prices } = searched(packing);
    expect(bound).toBeCloseTo(dualValue(packing, prices), 6);
    expect(reached).toBeLessThanOrEqual(exact + 1e-6);
    expect(bound).toBeGreaterThanOrEqual(exact - 1e-6);
    gap += bound - reached;
    largest += exact;
  };
  fc.assert(fc.property(packings(fc.integer({ min: 1, max: 9 }), 40), check), { numRuns: runs(150) });
  expect(gap / largest).toBeLessThan(0.05);
});

test("any prices prove a bound, and negative ones do not", () => {
  const [free, intervals] = [[2, 1, 2], [{ start: 0, length: 2, copies: 2, weight: 1 }]];
  const packing = packingOf(free, intervals);
  expect(largestValue(packing)).toBe(1);
  const dualOf = (...prices: number[]) => dualValue(packing, Float64Array.from(prices));
  expect([0, 0.5, 1, 7].map((price) => dualOf(0, price, 0))).toEqual([2, 1.5, 1, 7]);
  expect(dualOf(-1, 1, 0)).toBe(-1); // Below the largest value, 1.
});
