import fc from "fast-check";
import { expect, test } from "vitest";
import { Metrics, type Slo, sloMetrics, timesOf } from "../../../core/serving/metrics.ts";
import { linearCost, outcome, simulated, workloads } from "../../support/simulated.ts";

const percentiles = fc.double({ min: 0.1, max: 100, noNaN: true });

test("an objective is met if the percentile over all requests, refused ones as infinite, is within the limit", () => {
  let [met, unlimited] = [0, 0];
  fc.assert(
    fc.property(workloads(), percentiles, fc.integer({ min: 1, max: 40 }), (rows, percentile, blocks) => {
      const run = simulated(rows, { blocks, blockTokens: 4, cost: linearCost({ fixed: 7 }) });
      const limit = { ttftMs: 1e-4, tpotMs: 1e-5, e2eMs: 1e-3 };
      const slo: Slo = { ...limit, percentiles: { ttftMs: percentile, tpotMs: percentile, e2eMs: percentile } };
      const { objectives } = new Metrics(run).slo(slo);
      const { outcomes } = run.arrivals.batches[0];
      expect(objectives!.map(({ metric }) => metric)).toEqual(sloMetrics);
      for (const { metric, valueMs, ...objective } of objectives!) {
        const values = rows
          .map((_, row) => (outcomes.refused[row] ? Number.POSITIVE_INFINITY : timesOf(outcomes, row)![metric]))
          .filter((value) => value !== undefined)
          .sort((a, b) => a - b);
        // At least this share of the requests is within the value, and no more than it below the rank before it.
        const within = values.filter((value) => value <= (valueMs ?? Number.POSITIVE_INFINITY)).length;
        expect(within).toBeGreaterThanOrEqual(Math.floor(((values.length - 1) * percentile) / 100) + 1 - 1e-9);
        expect(objective.met).toBe(valueMs !== null && valueMs <= limit[metric]);
        if (valueMs === null) expect(values.at(-1)).toBe(Number.POSITIVE_INFINITY);
        met += Number(objective.met);
        unlimited += Number(valueMs === null);
      }
      expect(outcome(run, "refused").length).toBe(rows.length);
    }),
    { numRuns: 200 },
  );
  expect(met).toBeGreaterThan(20);
  expect(unlimited).toBeGreaterThan(20);
});
