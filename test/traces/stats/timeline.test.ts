import fc from "fast-check";
import { expect, test } from "vitest";
import { Timeline } from "../../../traces/stats/timeline.ts";
import { kolmogorovSmirnov, ValueCounts } from "../../../traces/stats/value-counts.ts";

const step = fc.record({
  waitNs: fc.oneof(fc.nat(1e7), fc.nat(2e9)),
  keys: fc.array(fc.nat(30), { maxLength: 5 }),
});
const steps = fc.array(step, { minLength: 1, maxLength: 40 });

test("counts and working sets are those of a naive count, however often intervals are merged", () => {
  fc.assert(
    fc.property(steps, (requests) => {
      const timeline = new Timeline();
      const uses: [atNs: number, key: number][] = [];
      const arrivals: number[] = [];
      let atNs = 5e9;
      for (const { waitNs, keys } of requests) {
        atNs += arrivals.length === 0 ? 0 : waitNs;
        timeline.addRequest(atNs, 10);
        arrivals.push(atNs - 5e9);
        for (const key of keys) {
          timeline.addKey(key);
          uses.push([atNs - 5e9, key]);
        }
      }
      const { binS, requests: counts, inputTokens, workingSets } = timeline.counts();
      expect(counts.length).toBeLessThanOrEqual(512);
      expect(Number.isInteger(Math.log2(binS))).toBe(true);
      const binOf = (ns: number) => Math.floor(ns / (binS * 1e9));
      const differing: string[] = [];
      counts.forEach((count, bin) => {
        const expected = arrivals.filter((ns) => binOf(ns) === bin).length;
        if (count !== expected || inputTokens[bin] !== 10 * expected) differing.push(`requests of ${bin}`);
        for (const { windowS, keys } of workingSets) {
          const first = windowS === 512 * binS ? 0 : bin + 1 - windowS / binS;
          const used = uses.filter(([ns]) => binOf(ns) <= bin && binOf(ns) >= first);
          if (keys[bin] !== new Set(used.map(([, key]) => key)).size) differing.push(`${windowS} s up to ${bin}`);
        }
      });
      expect(differing).toEqual([]);
    }),
    { numRuns: 20 },
  );
});

test("percentiles and distances of counted values are those of sorted ones", () => {
  const values = fc.array(fc.oneof(fc.nat(20), fc.nat(10_000_000)), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(values, values, (one, other) => {
      const [counts, others] = [one, other].map((list) => {
        const counted = new ValueCounts();
        for (const value of list) counted.add(value);
        return counted;
      });
      const sorted = one.slice().sort((a, b) => a - b);
      const shares = [0.1, 0.5, 0.9, 1];
      expect(counts.quantiles(shares)).toEqual(shares.map((share) => sorted[Math.ceil(share * sorted.length) - 1]));
      const upTo = (list: number[], x: number) => list.filter((value) => value <= x).length / list.length;
      const naive = Math.max(...[...one, ...other].map((x) => Math.abs(upTo(one, x) - upTo(other, x))));
      expect(kolmogorovSmirnov(counts, others)).toBeCloseTo(naive, 12);
    }),
    { numRuns: 20 },
  );
});
