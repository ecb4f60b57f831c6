import { expect, test } from "vitest";
import { bruteForce } from "../../../lab/size/brute-force.ts";
import { Clusters } from "../../../lab/size/clusters.ts";
import { cheapest } from "../../../lab/size/search.ts";
import type { SizeOptions } from "../../../lab/size/size-options.ts";
import { withSizing } from "../../../lab/size/sizing.ts";

const grid = {
  gpu: ["h200", "l40s"],
  tp: [1, 2],
  eviction: ["lru", "s3-fifo", "arc"],
  router: ["round-robin", "least-loaded", "prefix-affinity"],
  capacity: [2 ** 30],
  maxGpus: 32,
  limit: 200,
} as const;

const slo: SizeOptions["slo"] = { ttftMs: 1000, tpotMs: 30, percentiles: { ttftMs: 90, tpotMs: 95 } };

test("the search chooses what all simulations of a grid show, with a tenth of them", async () => {
  await withSizing("example", { ...grid, slo, rate: 90 }, async (sizing) => {
    const clusters = new Clusters(sizing);
    const chosen = await cheapest(sizing.options, clusters.evaluate);
    const searched = sizing.measurements.count;
    const best = await bruteForce(sizing, clusters);
    expect(best).toBeDefined();
    expect(chosen).toEqual(best);
    expect(searched).toBeLessThanOrEqual(clusters.all.length / 10);
  });
});
