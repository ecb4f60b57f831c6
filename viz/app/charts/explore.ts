import type { RunRow } from "../../api.ts";
import { select, setChoices } from "../controls/dom.ts";
import { abscissasOf, defaultAxes, type Quantity, resultsOf } from "../data/axes.ts";
import { type Comparison, isBound } from "../data/comparison.ts";
import { approximate } from "../data/format.ts";
import { breaksBetween } from "../data/line-breaks.ts";
import { runLabels } from "../data/run-labels.ts";
import { seriesStyles } from "../data/series-style.ts";
import { updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { figure, onWidth } from "./figure.ts";
import { type Line, LineChart, type Point } from "./line-chart.ts";

/** Any result against any setting or result, a line for each system or policy. */
export function exploreFigure({ params, signal }: ViewContext): ComparisonFigure {
  const { element, body, tools, note } = figure("Any result by any setting");
  const requested = { x: params.get("x"), y: params.get("y") };
  let rows: readonly RunRow[] = [];
  const chart = new LineChart(body, optionsOf(undefined, undefined, []));
  const choose = (axis: "x" | "y") => (name: string) => {
    requested[axis] = name;
    updateRoute({ [axis]: name });
    draw();
  };
  const lists = { x: select("x axis", [], "", choose("x")), y: select("y axis", [], "", choose("y")) };
  tools.append(lists.y, lists.x);
  const draw = () => {
    const [abscissas, results, defaults] = [abscissasOf(rows), resultsOf(rows), defaultAxes(rows)];
    element.hidden = defaults === undefined;
    if (defaults === undefined) return;
    const among = (all: readonly Quantity[], name: string | null, fallback: string) =>
      all.find((each) => each.name === name) ?? all.find((each) => each.name === fallback) ?? all[0];
    const x = among(abscissas, requested.x, defaults.x);
    const y = among(results, requested.y, defaults.y);
    const choicesOf = (all: readonly Quantity[]) => all.map(({ name, label }) => ({ value: name, label }));
    setChoices(lists.x, choicesOf(abscissas), x?.name ?? "");
    setChoices(lists.y, choicesOf(results), y?.name ?? "");
    const lines = x && y ? linesOf(rows, x, y) : [];
    const without = x && y ? rows.filter((row) => x.of(row) === undefined || y.of(row) === undefined).length : 0;
    note(without > 0 ? `${without} of ${rows.length} runs do not have both values.` : "");
    chart.update(lines, optionsOf(x, y, lines));
  };
  onWidth(body, signal, () => chart.draw());
  const show = (comparison: Comparison) => {
    rows = comparison.rows.filter((row) => !isBound(row));
    draw();
  };
  return { element, show };
}

/** Axes over more than this ratio are logarithmic. */
const wideRatio = 20;

function optionsOf(x: Quantity | undefined, y: Quantity | undefined, lines: readonly Line[]) {
  const axisOf = (of: Quantity | undefined, values: readonly number[]) => {
    const log = of?.isLog !== false && Math.min(...values) > 0 && Math.max(...values) > wideRatio * Math.min(...values);
    const label = `${of?.label ?? ""}${log ? " (logarithmic)" : ""}`;
    return { label, log, fromZero: !log, format: of?.tick ?? String };
  };
  const points = lines.flatMap((line) => line.points);
  return {
    title: `${y?.label ?? ""} by ${x?.label ?? ""}`,
    x: {
      ...axisOf(
        x,
        points.map((point) => point.x),
      ),
      fromZero: false,
    },
    y: axisOf(
      y,
      points.map((point) => point.y),
    ),
    marks: true,
  };
}

/** Runs that differ only in the x axis, the seed or the order of ties are one line; equal x are one point with a band. */
function linesOf(rows: readonly RunRow[], x: Quantity, y: Quantity): Line[] {
  const drawn = rows.filter((row) => x.of(row) !== undefined && y.of(row) !== undefined);
  const labels = runLabels(drawn, { omitted: [x.name, "seed", "free-order"] });
  const areSizes = x.name !== "capacity" && new Set(drawn.map(({ capacityTokens }) => capacityTokens)).size > 1;
  const labelOf = (row: RunRow) =>
    areSizes ? `${labels.get(row.id)} · ${approximate(row.capacityTokens ?? 0)} tokens` : labels.get(row.id)!;
  const lines = new Map<string, RunRow[]>();
  for (const row of drawn) lines.set(labelOf(row), [...(lines.get(labelOf(row)) ?? []), row]);
  const styles = seriesStyles([...lines].map(([label, [first]]) => [label, first.preset ?? first.eviction]));
  const xs = [...new Set(drawn.map((row) => x.of(row)!))];
  return [...lines].map(([label, group]) => {
    const points = pointsOf(group, x, y);
    return { label, points, style: styles.get(label)!, breaks: breaksBetween(points, xs) };
  });
}

function pointsOf(rows: readonly RunRow[], x: Quantity, y: Quantity): Point[] {
  const groups = new Map<number, number[]>();
  for (const row of rows) groups.set(x.of(row)!, [...(groups.get(x.of(row)!) ?? []), y.of(row)!]);
  return [...groups]
    .sort(([a], [b]) => a - b)
    .map(([at, values]) => {
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const range = values.length > 1 ? `\n${y.text(low)} to ${y.text(high)}, ${values.length} runs` : "";
      return { x: at, y: mean, low, high, text: `${y.text(mean)}\n${x.label}: ${x.text(at)}${range}` };
    });
}
