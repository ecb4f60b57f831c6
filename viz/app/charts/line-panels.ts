import type { Quantity } from "../data/axes.ts";
import { frontLines, linesOf, type Series } from "../data/explore-lines.ts";
import type { FigureKind, Panel } from "../data/figures.ts";
import type { Line } from "../data/lines.ts";
import { LineChart, type LineOptions } from "./line-chart.ts";
import type { Chart, PanelContent } from "./panels.ts";

interface LineData {
  readonly lines: readonly Line[];
  readonly options: LineOptions;
}

const emptyOptions: LineOptions = {
  title: "",
  x: { label: "", format: String },
  y: { label: "", format: String },
  marks: true,
};

const create = (host: HTMLElement): Chart<LineData> => {
  const chart = new LineChart(host, emptyOptions);
  return { update: ({ lines, options }) => chart.update(lines, options), draw: () => chart.draw() };
};

/** A line chart for each panel. Facets have equal axes. */
export function linePanels(
  panels: readonly Panel[],
  x: Quantity,
  series: Series,
  kind: FigureKind,
): PanelContent<LineData>[] {
  const draw = kind === "front" ? frontLines : linesOf;
  const all = panels.map(({ rows, y }) => (y ? draw(rows, x, y, series) : []));
  const areFacets = new Set(panels.map(({ y }) => y)).size === 1;
  const facetHeight = panels.length > 1 ? { height: 290 } : {};
  return panels.map(({ title, y }, i) => {
    const options = optionsOf(x, y!, areFacets ? all.flat() : all[i]);
    return {
      ...{ title, kind: "lines", create },
      data: {
        lines: all[i],
        options: { ...options, ...facetHeight, title: [title, options.title].filter(Boolean).join(": ") },
      },
    };
  });
}

/** Axes over more than this ratio are logarithmic. */
const wideRatio = 20;

function optionsOf(x: Quantity, y: Quantity, lines: readonly Line[]): LineOptions {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map((point) => point.x);
  const ys = points.flatMap(({ y: at, low = at, high = at }) => [at, low, high]);
  return { title: `${y.label} by ${x.label}`, x: { ...axisOf(x, xs), fromZero: false }, y: axisOf(y, ys), marks: true };
}

function axisOf({ label, isLog, tick }: Quantity, values: readonly number[]) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const log = isLog !== false && least > 0 && most > wideRatio * least;
  const extent = values.length > 0 ? { extent: [least, most] as const } : {};
  return { label: `${label}${log ? " (logarithmic)" : ""}`, log, fromZero: !log, format: tick, ...extent };
}
