import type { RunRow } from "../../api.ts";
import { type Comparison, isBound, rowsByLabel, styleOf } from "../data/comparison.ts";
import { approximate, integer, percent, roundPercent } from "../data/format.ts";
import { breaksBetween } from "../data/line-breaks.ts";
import type { Line, Point } from "../data/lines.ts";
import { barsFigure } from "./bars.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart } from "./line-chart.ts";

/** Hit ratio against cache size: a line per policy, bounds dashed. */
export function hitRatioCurve(metricOf: () => string, signal: AbortSignal): ComparisonFigure {
  const { element, body, note } = figure("Hit ratio by cache size");
  const chart = new LineChart(body, {
    title: "Hit ratio by cache size",
    x: { label: "cache size, tokens (logarithmic)", log: true, format: approximate },
    y: { label: "hit ratio", fromZero: true, format: roundPercent },
    marks: true,
  });
  onWidth(body, signal, () => chart.draw());
  const show = (comparison: Comparison) => {
    note([bandNote(comparison), noteOf(comparison, metricOf())].filter(Boolean).join(" "));
    chart.update(linesOf(withBounds(comparison), metricOf()));
  };
  return { element, show };
}

/** Hit ratios of runs of one cache size, a bar per run. */
export function hitRatioBars(metricOf: () => string, signal: AbortSignal): ComparisonFigure {
  const of = ({ hitRatio }: RunRow) => hitRatio[metricOf()];
  const { element, note, show } = barsFigure("Hit ratio", "hit ratio", of, signal, percent, roundPercent);
  const showAll = (comparison: Comparison) => {
    note(noteOf(comparison, metricOf()));
    show(withBounds(comparison));
  };
  return { element, show: showAll };
}

const withBounds = (comparison: Comparison): Comparison => ({
  ...comparison,
  rows: [...comparison.rows, ...comparison.bounds],
  bounds: [],
});

/** Which runs lack the metric, and whether there is a bound: without a comparison on target cache there are none for a trace. */
function noteOf(comparison: Comparison, metric: string): string {
  const { rows } = withBounds(comparison);
  const without = rows.filter(({ hitRatio }) => hitRatio[metric] === undefined).length;
  const missing = without > 0 ? `${without} of ${rows.length} runs do not have this hit ratio. ` : "";
  const noBound = "No saved bounds are valid for all of these runs. kvlab compare on target cache saves bounds.";
  return `${missing}${rows.some(isBound) ? "" : noBound}`.trim();
}

/** Several runs of one policy and size are drawn as a band. */
function bandNote({ rows, bandLabels }: Comparison): string {
  const hasBand = [...rowsByLabel(rows, bandLabels).values()].some((group) => bySize(group).length < group.length);
  return hasBand
    ? "Bands: lowest to highest of several runs of one size, such as those of several seeds; lines: the mean."
    : "";
}

/** A line per label; it is broken where a size that others have was not run. */
function linesOf(comparison: Comparison, metric: string): Line[] {
  const seen = new Set<string>();
  /** Bounds with equal values are drawn once. */
  const isNew = ([, rows]: readonly [string, readonly RunRow[]]) => {
    const line = rows.map((row) => `${row.capacityTokens} ${row.hitRatio[metric]}`).join();
    return !isBound(rows[0]) || (!seen.has(line) && seen.add(line));
  };
  const withMetric = [...rowsByLabel(comparison.rows, comparison.bandLabels)].map(
    ([label, rows]) => [label, rows.filter(({ hitRatio }) => hitRatio[metric] !== undefined)] as const,
  );
  const shortestFirst = withMetric.filter(([, rows]) => rows.length > 0).sort(([a], [b]) => a.length - b.length);
  const sizes = shortestFirst.flatMap(([, rows]) => rows.flatMap(({ capacityTokens }) => capacityTokens ?? []));
  return shortestFirst.filter(isNew).map(([label, rows]) => {
    const points = bySize(rows).map((same) => pointOf(same, metric));
    return {
      ...{ label, points, breaks: breaksBetween(points, sizes) },
      style: styleOf(comparison, rows[0]),
      isBound: isBound(rows[0]),
      isHorizontal: rows[0].blocks === null,
    };
  });
}

/** The mean of runs of one size, with their range as a band. */
function pointOf(same: readonly RunRow[], metric: string): Point {
  const values = same.map(({ hitRatio }) => hitRatio[metric]);
  const y = values.reduce((sum, value) => sum + value, 0) / values.length;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const range = same.length === 1 ? "" : `\n${percent(low)} to ${percent(high)}, ${integer(same.length)} runs`;
  return { x: same[0].capacityTokens ?? 1, y, low, high, text: `${percent(y)}\n${sizeText(same[0])}${range}` };
}

/** Runs of one band by cache size, in their order. */
function bySize(rows: readonly RunRow[]): RunRow[][] {
  const sizes = new Map<number | null, RunRow[]>();
  for (const row of rows) sizes.set(row.capacityTokens, [...(sizes.get(row.capacityTokens) ?? []), row]);
  return [...sizes.values()];
}

const sizeText = ({ capacityTokens, blocks }: RunRow) =>
  capacityTokens === null ? "unlimited" : `${integer(capacityTokens)} tokens, ${integer(blocks ?? 0)} blocks`;
