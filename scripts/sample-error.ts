// Prints the error of curves that are estimated from samples, beside the error that they state:
// npm run -s sample:error -- TRACE [RATE [POLICIES [BLOCKS [SEEDS]]]]

import type { Curve, CurvePoint } from "../lab/curve/curve-document.ts";
import { hitRatioCurves } from "../lab/curve/curves.ts";
import { openTrace } from "../lab/input.ts";

const [file, rate = "0.1", policies = "lru", sizes = "1000,5859,10000,30000,50000,100000", seeds = "50"] =
  process.argv.slice(2);
if (file === undefined) throw new Error("expected a trace");
const input = await openTrace([file]);
const blocks = sizes.split(",").map((size) => ({ blocks: Number(size) }));
const eviction = policies.split(",");
const { curves: exact } = (await hitRatioCurves(input, { blocks, eviction })).report;
const samples: (readonly Curve[])[] = [];
for (let seed = 1; seed <= Number(seeds); seed++)
  samples.push((await hitRatioCurves(input, { blocks, eviction, sample: Number(rate), seed })).report.curves);

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
const rootMeanSquare = (values: readonly number[]) => Math.sqrt(mean(values.map((value) => value * value)));
const block = ({ hitRatio }: CurvePoint) => hitRatio.block!;

const header = ["policy", "blocks", "exact", "mean error", "error (rms)", "stated (1 s.e.)", "in interval"];
const rows = exact.flatMap(({ eviction, points }, curve) =>
  points.map((point, size) => {
    const estimates = samples.map((curves) => curves[curve].points[size]);
    const errors = estimates.map((estimate) => block(estimate) - block(point));
    const stated = rootMeanSquare(estimates.map(({ low, high }) => (high - low) / 2 / 1.96));
    const covered = estimates.filter(({ low, high }) => low <= block(point) && block(point) <= high).length;
    const numbers = [block(point), mean(errors), rootMeanSquare(errors), stated].map((value) => value.toFixed(4));
    return [eviction, String(point.blocks), ...numbers, `${Math.round((100 * covered) / estimates.length)} %`];
  }),
);
const line = (cells: readonly string[]) => console.log(`| ${cells.join(" | ")} |`);
line(header);
line(header.map(() => "---"));
rows.forEach(line);
