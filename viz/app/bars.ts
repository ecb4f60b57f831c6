import * as Plot from "@observablehq/plot";
import type { RunRow } from "../api.ts";
import { type Compared, colourOf, nameOf } from "./compared.ts";
import { drawPlot } from "./plot.ts";

interface Bar {
  readonly name: string;
  readonly value: number;
  readonly colour: string;
}

/** A bar for each run. */
export const barsOf = (compared: Compared, of: (row: RunRow) => number): Bar[] =>
  compared.rows.map((row) => ({ name: nameOf(compared, row.id), value: of(row), colour: colourOf(compared, row) }));

/** Horizontal bars from 0, with their values at their ends. */
export function drawBars(
  body: HTMLElement,
  width: number,
  bars: readonly Bar[],
  label: string,
  text: (value: number) => string,
  tick = text,
): void {
  const longest = Math.max(...bars.map(({ name }) => name.length));
  drawPlot(body, {
    width,
    height: 64 + bars.length * 34,
    marginLeft: Math.min(width < 500 ? 110 : 190, 20 + longest * 7.5),
    marginRight: 64,
    marginBottom: 44,
    x: { label, labelOffset: 38, grid: true, zero: true, ticks: 4, tickFormat: tick },
    y: { label: null, domain: bars.map(({ name }) => name), padding: 0.3 },
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
