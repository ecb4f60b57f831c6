import * as Plot from "@observablehq/plot";
import type { RunRow } from "../../api.ts";
import { type Comparison, nameOf, styleOf } from "../data/comparison.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { type Figure, figure, onWidth } from "./figure.ts";
import { drawPlot } from "./plot.ts";

interface Bar {
  readonly name: string;
  readonly value: number;
  readonly colour: string;
}

/** A horizontal bar per run. */
export function barsFigure(
  title: string,
  label: string,
  of: (row: RunRow) => number | undefined,
  signal: AbortSignal,
  text: (value: number) => string,
  tick = text,
): ComparisonFigure & Pick<Figure, "note"> {
  const { element, body, note } = figure(title);
  let bars: readonly Bar[] = [];
  const draw = () => body.clientWidth > 0 && drawBars(body, body.clientWidth, bars, label, text, tick);
  onWidth(body, signal, draw);
  const show = (comparison: Comparison) => {
    bars = comparison.rows.flatMap((row) => {
      const value = of(row);
      return value === undefined
        ? []
        : [{ name: nameOf(comparison, row.id), value, colour: styleOf(comparison, row).colour }];
    });
    draw();
  };
  return { element, note, show };
}

/** Bars from 0, with the value at the end of each. */
function drawBars(
  body: HTMLElement,
  width: number,
  bars: readonly Bar[],
  label: string,
  text: (value: number) => string,
  tick: (value: number) => string,
): void {
  const longest = Math.max(...bars.map(({ name }) => name.length));
  const marginLeft = Math.min(width * 0.45, 20 + longest * 7.5);
  const maxLength = Math.floor((marginLeft - 14) / 7);
  const shortened = (name: string) => (name.length > maxLength ? `${name.slice(0, maxLength - 1)}…` : name);
  drawPlot(body, {
    width,
    height: 64 + bars.length * 34,
    marginLeft,
    marginRight: 64,
    marginBottom: 44,
    x: { label, labelOffset: 38, grid: true, zero: true, ticks: 4, tickFormat: tick },
    y: { label: null, domain: bars.map(({ name }) => name), padding: 0.3, tickFormat: shortened },
    ariaLabel: `${label}: ${bars.map(({ name, value }) => `${name} ${text(value)}`).join(", ")}`,
    marks: [
      Plot.barX(bars, { x: "value", y: "name", fill: "colour", rx: 3 }),
      Plot.text(bars, {
        x: "value",
        y: "name",
        text: ({ value }: Bar) => text(value),
        textAnchor: "start",
        dx: 6,
        fill: "currentColor",
      }),
    ],
  });
}
