import type { RunRow } from "../../api.ts";
import type { Quantity } from "./axes.ts";
import { approximate } from "./format.ts";
import { grouped } from "./grouped.ts";
import { breaksBetween, haveOneSize } from "./line-breaks.ts";
import type { Line, Point } from "./lines.ts";
import type { Parameter } from "./parameters.ts";
import { runLabels } from "./run-labels.ts";
import { boundStyle, type SeriesStyle, seriesStyles } from "./series-style.ts";

/** The series that runs belong to, and how each is drawn. */
export interface Series {
  labelOf(row: RunRow): string;
  readonly styles: ReadonlyMap<string, SeriesStyle>;
}

/**
 * The series of a figure: the values of a parameter, or else as few settings as distinguish the runs. Runs that differ only in
 * `omitted`, the seed or the order of ties are one series.
 */
export function seriesOf(
  rows: readonly RunRow[],
  parameter: Parameter | undefined,
  omitted: readonly string[],
): Series {
  const labels = runLabels(rows, { omitted: [...omitted, "seed", "free-order"] });
  const areSizes = !omitted.includes("capacity") && !haveOneSize(rows);
  const sizeText = ({ capacityTokens }: RunRow) =>
    capacityTokens === null ? "unlimited" : `${approximate(capacityTokens)} tokens`;
  const automatic = (row: RunRow) =>
    areSizes ? [labels.get(row.id), sizeText(row)].filter(Boolean).join(" · ") : labels.get(row.id)!;
  const labelOf = parameter?.of ?? automatic;
  const groupOf = (row: RunRow) => (parameter ? labelOf(row) : (row.preset ?? row.eviction));
  return { labelOf, styles: seriesStyles(rows.map((row) => [labelOf(row), groupOf(row)])) };
}

const hasBoth = (x: Quantity, y: Quantity) => (row: RunRow) => x.of(row) !== undefined && y.of(row) !== undefined;

/** A line for each series; runs of one series and x are one point, their mean, with a band. */
export function linesOf(rows: readonly RunRow[], x: Quantity, y: Quantity, { labelOf, styles }: Series): Line[] {
  const drawn = rows.filter(hasBoth(x, y));
  const xs = [...new Set(drawn.map((row) => x.of(row)!))];
  return [...grouped(drawn, labelOf)].map(([label, group]) => {
    const points = pointsOf(group, x, y);
    return { label, points, style: styles.get(label)!, breaks: breaksBetween(points, xs) };
  });
}

function pointsOf(rows: readonly RunRow[], x: Quantity, y: Quantity): Point[] {
  return [...grouped(rows, (row) => x.of(row)!)]
    .sort(([a], [b]) => a - b)
    .map(([at, group]) => ({ ...meanOf(group, y), x: at }))
    .map((point) => ({ ...point, text: withX(point.text, x, point.x) }));
}

const withX = (text: string, x: Quantity, at: number) => {
  const [value, ...others] = text.split("\n");
  return [value, `${x.label}: ${x.text(at)}`, ...others].join("\n");
};

/** The mean of a result of some runs, with their range and their intervals as limits. */
export function meanOf(rows: readonly RunRow[], y: Quantity): Omit<Point, "x"> {
  const values = rows.map((row) => y.of(row)!);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const intervals = rows.flatMap((row) => y.interval?.(row) ?? []);
  const low = Math.min(...values, ...intervals.map((each) => each.low));
  const high = Math.max(...values, ...intervals.map((each) => each.high));
  return { y: mean, low, high, text: [y.text(mean), ...spreadTexts()].join("\n") };

  function spreadTexts(): string[] {
    const runs = `${values.length} runs`;
    const range = `${y.text(low)} to ${y.text(high)}`;
    if (intervals.length > 0) return [`${range}, 95 % interval${values.length > 1 ? ` of ${runs}` : ""}`];
    if (values.length === 1) return [];
    return [low === high ? `${runs}, all equal` : `${range}, ${runs}`];
  }
}

/** The runs that no other run is at least as good as in both x, of which less is better, and y. In ascending order of x. */
export function paretoFront(rows: readonly RunRow[], x: Quantity, y: Quantity): RunRow[] {
  const sign = y.isLessBetter ? 1 : -1;
  const cost = (row: RunRow) => sign * y.of(row)!;
  const sorted = rows.filter(hasBoth(x, y)).sort((a, b) => x.of(a)! - x.of(b)! || cost(a) - cost(b));
  let best = Number.POSITIVE_INFINITY;
  return sorted.filter((row) => {
    if (cost(row) >= best) return false;
    best = cost(row);
    return true;
  });
}

/** The label of the line that joins the Pareto front. */
const frontLabel = "Pareto front";

/** A point for each run, and the Pareto front as steps: between its points only the cheaper one is reached. */
export function frontLines(rows: readonly RunRow[], x: Quantity, y: Quantity, { labelOf, styles }: Series): Line[] {
  const front = paretoFront(rows, x, y);
  const names = runLabels(rows);
  const pointOf = (row: RunRow): Point => ({
    ...{ x: x.of(row)!, y: y.of(row)! },
    text: [
      y.text(y.of(row)!),
      `${x.label}: ${x.text(x.of(row)!)}`,
      names.get(row.id)!,
      ...(front.includes(row) ? ["on the Pareto front"] : []),
    ].join("\n"),
  });
  const inOrder = (group: readonly RunRow[]) => group.map(pointOf).sort((a, b) => a.x - b.x);
  const lines = [...grouped(rows.filter(hasBoth(x, y)), labelOf)].map(([label, group]): Line => {
    const points = inOrder(group);
    return { label, points, style: styles.get(label)!, breaks: new Set(points.keys()) };
  });
  const joined: Line = { label: frontLabel, style: boundStyle, isBound: true, isStepped: true, points: inOrder(front) };
  return front.length > 1 ? [...lines, joined] : lines;
}
