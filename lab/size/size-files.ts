import { writeFile } from "node:fs/promises";
import { counted } from "../../core/counted.ts";
import { sloMetrics } from "../../core/serving/metrics.ts";
import { duration } from "../output/numbers.ts";
import { writeFiles } from "../output/written-files.ts";
import { type Chart, type Curve, chartSvg, type Point } from "../traces/plots/chart.ts";
import type { ListedCluster, SizeDocument } from "./size-document.ts";
import { metricNames, objectiveText } from "./size-text.ts";

/**
 * Writes `size.json` (the document) and `size.svg` (a plot) to a folder, and replaces those that it has. Returns the paths.
 *
 * @throws InputError if a file cannot be written
 */
export async function writeSizeFiles(folder: string, name: string, report: SizeDocument): Promise<string[]> {
  const files = new Map<string, (path: string) => Promise<void>>();
  files.set("size.json", (path) => writeFile(path, `${JSON.stringify(report, undefined, 2)}\n`));
  files.set("size.svg", (path) => writeFile(path, chartSvg(chartOf(name, report))));
  return await writeFiles(folder, files);
}

/** A larger value is drawn as this multiple of its limit. */
const mostLimits = 100;

/** The first metric with a limit, at its percentile, by cost. */
function chartOf(name: string, { clusters, prices, slo, model, trace }: SizeDocument): Chart {
  const metric = sloMetrics.find((each) => slo[each] !== undefined)!;
  const limit = slo[metric]!;
  const valueOfOne = ({ objectives }: ListedCluster) =>
    objectives.find((each) => each.metric === metric)?.valueMs ?? null;
  const drawn = clusters.filter((cluster) => (valueOfOne(cluster) ?? 0) > 0);
  // Overloaded clusters would compress the others.
  const most = mostLimits * limit;
  const times = [limit, ...drawn.map((cluster) => Math.min(most, valueOfOne(cluster)!))];
  const pointsOf = (which: (cluster: ListedCluster) => boolean) =>
    drawn.filter(which).map((cluster): Point => [cluster.costPerHour, Math.min(most, valueOfOne(cluster)!)]);
  const mostCost = 1.05 * Math.max(...drawn.map(({ costPerHour }) => costPerHour), 0.01);
  const curves: Curve[] = [
    {
      label: "limit",
      shape: "line",
      points: [
        [0, limit],
        [mostCost, limit],
      ],
    },
    { label: "misses the SLO", shape: "points", points: pointsOf(({ met }) => !met) },
    { label: "Pareto front", shape: "rings", points: pointsOf(({ onFront }) => onFront) },
    { label: "meets the SLO", shape: "points", points: pointsOf(({ met }) => met) },
    { label: "chosen", shape: "targets", points: pointsOf(({ chosen }) => chosen) },
  ];
  const metricName = `P${slo.percentiles?.[metric]} ${metricNames[metric]}`;
  return {
    title: `${metricName} by cost: ${name}`,
    subtitle: `${counted(trace.requests, "request")}, ${model}; SLO ${objectiveText(slo)}`,
    x: { label: `cost, ${prices.currency} per hour`, scale: "linear", domain: [0, mostCost] },
    y: {
      ...{
        label: Math.max(...times) === most ? `${metricName}, ${duration(most)} or more at the top` : metricName,
        scale: "log",
        tick: duration,
      },
      domain: [Math.min(...times) / 1.5, Math.max(...times) * 1.2],
    },
    curves,
  };
}
