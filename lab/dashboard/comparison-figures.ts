import type { RunRow } from "../../viz/api.ts";
import { abscissasOf, defaultAxes, type Quantity, resultsOf } from "../../viz/app/data/axes.ts";
import { type Comparison, isBound, isTimed, nameOf, rowsByLabel } from "../../viz/app/data/comparison.ts";
import { approximate, hitRatios, percent, roundPercent } from "../../viz/app/data/format.ts";
import { haveOneSize } from "../../viz/app/data/line-breaks.ts";
import { runLabels } from "../../viz/app/data/run-labels.ts";
import { type Axis, type Chart, type Curve, chartSvg, mostCurves, type Point } from "../traces/plots/chart.ts";
import { barsSvg } from "./bars.ts";

/** Bars that one figure shows. */
const mostBars = 40;
/** Axes over more than this ratio are logarithmic. */
const wideRatio = 20;

/** The figures of a comparison as SVG documents. `subtitle`: the workload. */
export function comparisonFigures(comparison: Comparison, metric: string, subtitle: string): string[] {
  const rows = comparison.rows.filter((row) => row.hitRatio[metric] !== undefined);
  const all = [...rows, ...comparison.bounds.filter((row) => row.hitRatio[metric] !== undefined)];
  const ratio = rows.length === 0 ? [] : haveOneSize(rows) ? [] : [hitRatioChart(comparison, all, metric, subtitle)];
  const timed = comparison.rows.filter((row) => isTimed(row) && !isBound(row));
  const byRate = timed.length > 1 ? latencyCharts(timed, subtitle) : [];
  const bars = haveOneSize(rows) && rows.length > 1 ? [ratioBars(comparison, all, metric, subtitle)] : [];
  return [...ratio.map(chartSvg), ...byRate.map(chartSvg), ...bars];
}

function ratioBars(comparison: Comparison, rows: readonly RunRow[], metric: string, subtitle: string): string {
  const sorted = [...rows].sort((a, b) => b.hitRatio[metric] - a.hitRatio[metric]);
  const bars = sorted.slice(0, mostBars).map((row) => ({
    label: nameOf(comparison, row.id),
    value: row.hitRatio[metric],
    text: percent(row.hitRatio[metric]),
  }));
  const rest = sorted.length > bars.length ? `; the best ${bars.length} of ${sorted.length} runs` : "";
  return barsSvg("Hit ratio", `${hitRatios[metric] ?? metric}; ${subtitle}${rest}`, bars);
}

/** Hit ratio by cache size; an unlimited cache is a horizontal line. */
function hitRatioChart(comparison: Comparison, rows: readonly RunRow[], metric: string, subtitle: string): Chart {
  const sizes = rows.flatMap(({ capacityTokens }) => capacityTokens ?? []);
  const domain: [number, number] = [Math.min(...sizes), Math.max(...sizes)];
  const lines = [...rowsByLabel(rows, comparison.bandLabels)].map(([label, group]) => ({
    label,
    isBound: isBound(group[0]),
    curve: curveOf(
      label,
      group.flatMap((row): Point[] =>
        row.capacityTokens === null
          ? domain.map((size): Point => [size, row.hitRatio[metric]])
          : [[row.capacityTokens, row.hitRatio[metric]]],
      ),
    ),
  }));
  const { drawn, note } = mostUseful(lines, (a, b) => b - a);
  return {
    title: "Hit ratio by cache size",
    subtitle: `${hitRatios[metric] ?? metric}; ${subtitle}${note}`,
    x: { label: "cache size, tokens", scale: "log", domain, tick: approximate },
    y: { label: "hit ratio", scale: "linear", domain: [0, topOf(drawn)], tick: roundPercent },
    curves: drawn,
  };
}

/** The 99th percentile of TTFT and the goodput, or else the throughput, by the numeric setting that differs: first the offered rate. */
function latencyCharts(rows: readonly RunRow[], subtitle: string): Chart[] {
  const axes = defaultAxes(rows);
  const x = axes && abscissasOf(rows).find(({ name }) => name === axes.x);
  if (!x) return [];
  const results = resultsOf(rows);
  const named = (name: string) => results.find((each) => each.name === name);
  const shown = [named("ttft99"), named("goodput") ?? named("throughput")].filter((each) => each !== undefined);
  return shown.map((y) => resultChart(rows, x, y, subtitle));
}

function resultChart(rows: readonly RunRow[], x: Quantity, y: Quantity, subtitle: string): Chart {
  const drawable = rows.filter((row) => x.of(row) !== undefined && y.of(row) !== undefined);
  const labels = runLabels(drawable, { omitted: [x.name, "seed", "free-order"] });
  const lines = [...rowsByLabel(drawable, labels)].map(([label, group]) => ({
    label,
    isBound: false,
    curve: curveOf(
      label,
      group.map((row): Point => [x.of(row)!, y.of(row)!]),
    ),
  }));
  const { drawn, note } = mostUseful(
    lines,
    y.name === "goodput" || y.name === "throughput" ? (a, b) => b - a : (a, b) => a - b,
  );
  const points = drawn.flatMap(({ points: all }) => all);
  const title = `${y.label} by ${x.label}`;
  return {
    title: title[0].toUpperCase() + title.slice(1),
    subtitle: `${subtitle}${note}`,
    x: axisOf(
      x,
      points.map(([at]) => at),
    ),
    y: axisOf(
      y,
      points.map(([, value]) => value),
      true,
    ),
    curves: drawn,
  };
}

function axisOf({ label, tick, isLog }: Quantity, values: readonly number[], fromZero = false): Axis {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const log = isLog !== false && least > 0 && most > wideRatio * least;
  const scale = log ? ("log" as const) : ("linear" as const);
  const from = log ? least : fromZero ? 0 : least;
  return { label: log ? `${label} (logarithmic)` : label, scale, domain: [from, most > from ? most : from + 1], tick };
}

/** A curve of the mean at each x, with the range of several runs of one x as a band. */
function curveOf(label: string, all: readonly Point[]): Curve {
  const values = new Map<number, number[]>();
  for (const [x, y] of all) values.set(x, [...(values.get(x) ?? []), y]);
  const sorted = [...values].sort(([a], [b]) => a - b);
  const points = sorted.map(([x, ys]): Point => [x, ys.reduce((sum, y) => sum + y, 0) / ys.length]);
  const hasBand = sorted.some(([, ys]) => ys.length > 1);
  return {
    ...{ label, points, shape: points.length === 1 ? "points" : "line" },
    ...(hasBand && { band: sorted.map(([x, ys]) => [x, Math.min(...ys), Math.max(...ys)] as const) }),
  };
}

interface Drawable {
  readonly isBound: boolean;
  readonly curve: Curve;
}

/** All curves, or, of more than a chart can have, the bounds and those with the best mean. */
function mostUseful(lines: readonly Drawable[], better: (a: number, b: number) => number) {
  const meanOf = ({ points }: Curve) => points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const sorted = [...lines].sort(
    (a, b) => Number(b.isBound) - Number(a.isBound) || better(meanOf(a.curve), meanOf(b.curve)),
  );
  const drawn = sorted.slice(0, mostCurves).map(({ curve }) => curve);
  return { drawn, note: lines.length > drawn.length ? `; ${drawn.length} of ${lines.length} lines, the best` : "" };
}

const topOf = (curves: readonly Curve[]) =>
  Math.min(
    1,
    1.1 *
      Math.max(
        ...curves.flatMap(({ points, band = [] }) => [...points.map(([, y]) => y), ...band.map(([, , high]) => high)]),
        1e-9,
      ),
  );
