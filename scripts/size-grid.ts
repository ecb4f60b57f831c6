// Compares the search of `kvlab size` with brute force, on grids of clusters: choices and numbers of simulations.
// npm run -s size:grid -- [TRACE [LIMIT [MAX_GPUS]]]

import { openTrace } from "../lab/input.ts";
import { bruteForce } from "../lab/size/brute-force.ts";
import { Clusters } from "../lab/size/clusters.ts";
import { routerName } from "../lab/size/grid.ts";
import { type Choice, cheapest } from "../lab/size/search.ts";
import type { SizeOptions } from "../lab/size/size-options.ts";
import { objectiveText } from "../lab/size/size-text.ts";
import { type Sizing, withSizing } from "../lab/size/sizing.ts";

const [file = "example", limit = "400", maxGpus = "32"] = process.argv.slice(2);
const input = await openTrace([file], { limit: Number(limit) });

const grid = {
  gpu: ["h200", "l40s"],
  tp: [1, 2],
  eviction: ["lru", "s3-fifo", "arc"],
  router: ["round-robin", "least-loaded", "prefix-affinity"],
  maxGpus: Number(maxGpus),
};

const searches: readonly Omit<SizeOptions, keyof typeof grid>[] = [
  { slo: { ttftMs: 300 }, rate: 60, capacity: [2 ** 30] },
  { slo: { ttftMs: 1000, tpotMs: 30, percentiles: { ttftMs: 90, tpotMs: 95 } }, rate: 90, capacity: [2 ** 30] },
  { slo: { e2eMs: 10_000, percentiles: { e2eMs: 95 } }, rate: 120, capacity: [2 ** 30, 2 ** 33] },
  { slo: { ttftMs: 200, tpotMs: 20 }, concurrency: 256, capacity: [2 ** 31] },
  { slo: { ttftMs: 500, tpotMs: 50, percentiles: { tpotMs: 95 } }, rate: 100 },
];

function choiceText({ options }: Sizing, choice: Choice | undefined): string {
  if (choice === undefined) return "none";
  const { machine, composition, router } = options[choice.option];
  const gpus = `${machine.gpus * choice.replicas} × ${machine.gpu}, TP ${machine.tensorParallel}`;
  return `${gpus}, ${composition.configuration.label}, ${choice.replicas > 1 ? routerName(router) : "no router"}`;
}

const line = (cells: readonly string[]) => console.log(`| ${cells.join(" | ")} |`);
line(["SLO", "load", "search", "simulations", "brute force", "simulations", "share"]);
line(["---", "---", "---", "---:", "---", "---:", "---:"]);
for (const search of searches)
  await withSizing(input, { ...grid, ...search }, async (sizing) => {
    const clusters = new Clusters(sizing);
    const chosen = await cheapest(sizing.options, clusters.evaluate);
    const simulations = sizing.measurements.count;
    const best = await bruteForce(sizing, clusters);
    const load = search.rate === undefined ? `${search.concurrency} in flight` : `${search.rate}/s`;
    const all = clusters.all.length;
    const texts = [choiceText(sizing, chosen), String(simulations), choiceText(sizing, best), String(all)];
    line([objectiveText(sizing.slo), load, ...texts, `${((100 * simulations) / all).toFixed(1)} %`]);
  });
