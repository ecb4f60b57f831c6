import { format } from "d3-format";
import { type ScaleContinuousNumeric, scaleLinear, scaleLog } from "d3-scale";
import { area, curveStepAfter, line } from "d3-shape";

/** An axis of numbers. */
export interface Axis {
  /** With the unit, such as "prompt length, tokens". */
  readonly label: string;
  readonly scale: "linear" | "log";
  /** Least and largest value; both above 0 on a logarithmic scale. */
  readonly domain: readonly [number, number];
  /** Text of a tick; by default 1,000 or 10k. */
  readonly tick?: (value: number) => string;
}

export type Point = readonly [x: number, y: number];

/** A curve and its name in the legend. */
export interface Curve {
  readonly label: string;
  readonly points: readonly Point[];
  /**
   * `steps`: each y holds from its x to the next one. `points` are not connected; `rings` and `targets` mark points of other
   * curves.
   */
  readonly shape: "line" | "steps" | "filled steps" | Mark;
  /** Intervals about the curve, in the order of x. */
  readonly band?: readonly (readonly [x: number, low: number, high: number])[];
}

/** A circle at each point. */
type Mark = "points" | "rings" | "targets";

/** A chart with axes, grid, curves and a legend. */
export interface Chart {
  readonly title: string;
  readonly subtitle: string;
  readonly x: Axis;
  readonly y: Axis;
  /** At most `mostCurves`. */
  readonly curves: readonly Curve[];
}

/** Curves that a chart can have. */
export const mostCurves = 8;

const [width, height] = [760, 400];
const margin = { top: 88, right: 24, bottom: 54, left: 72 };
const dashes = ["none", "7 3", "2 3", "9 3 2 3", "12 4", "5 2 2 2 2 2", "1 2", "14 3 4 3"];
/** Height of a row of the legend. */
const legendRow = 20;

/** Colours of the curves on a light and on a dark background; curves also differ in their dashes. */
const colours: readonly (readonly [light: string, dark: string])[] = [
  ["#0969da", "#58a6ff"],
  ["#bc4c00", "#f0883e"],
  ["#8250df", "#bc8cff"],
  ["#1a7f37", "#56d364"],
  ["#cf222e", "#ff7b72"],
  ["#0a7ea4", "#39c5cf"],
  ["#9a6700", "#d29922"],
  ["#6e7781", "#8b949e"],
];
const classesOf = (background: 0 | 1) =>
  colours
    .map((colour, i) => `.c${i} { stroke: ${colour[background]} } .f${i} { fill: ${colour[background]} }`)
    .join("\n  ");

/** Text, grid and curves on light and dark backgrounds; classes `f0` to `f7` fill with the colours of the curves. */
const chartStyle = `
  svg { background: #ffffff } text { fill: #24292f } .muted { fill: #57606a } .ground { fill: #ffffff }
  .grid { stroke: #d8dee4 } .axis { stroke: #57606a }
  ${classesOf(0)}
  @media (prefers-color-scheme: dark) {
    svg { background: #0d1117 } text { fill: #e6edf3 } .muted { fill: #9198a1 } .ground { fill: #0d1117 }
    .grid { stroke: #30363d } .axis { stroke: #9198a1 }
  ${classesOf(1)}
  }`;

/** The chart as an SVG document, readable in light and dark. */
export function chartSvg({ title, subtitle, x, y, curves }: Chart): string {
  const legend = legendOf(curves);
  const top = margin.top + legendRow * (legend.rows - 1);
  const [right, bottom] = [width - margin.right, height - margin.bottom];
  const acrossOf = scaleOf(x, [margin.left, right]);
  const upOf = scaleOf(y, [bottom, top]);
  const parts = [
    ...gridOf(x, acrossOf).map(
      ([at, text]) =>
        `<line class="axis" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 5}"/>` +
        `<text x="${at}" y="${bottom + 20}" text-anchor="middle">${text}</text>`,
    ),
    ...gridOf(y, upOf).map(
      ([at, text]) =>
        `<line class="grid" x1="${margin.left}" x2="${right}" y1="${at}" y2="${at}"/>` +
        `<text x="${margin.left - 8}" y="${at + 4}" text-anchor="end">${text}</text>`,
    ),
    ...curves.map((curve, i) => bandOf(curve, i, acrossOf, upOf)),
    ...curves.map((curve, i) => pathOf(curve, i, acrossOf, upOf)),
    ...legend.parts,
  ];
  parts.push(
    `<text x="${(margin.left + right) / 2}" y="${height - 10}" text-anchor="middle">${escaped(x.label)}</text>`,
    `<text transform="translate(18 ${(top + bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(y.label)}</text>`,
  );
  return framed({ width, height, left: margin.left, title, subtitle }, parts);
}

type Scale = ScaleContinuousNumeric<number, number>;

function scaleOf({ scale, domain }: Axis, range: [number, number]): Scale {
  return scale === "log" ? scaleLog(domain, range) : scaleLinear(domain, range);
}

/** Positions and texts of the ticks. */
function gridOf(
  { scale, domain: [least, most], tick = usualTick }: Axis,
  at: Scale,
): [position: number, text: string][] {
  const ticks = at.ticks(6);
  const isWide = most / least > 1000;
  const kept = scale === "log" ? ticks.filter((value) => !isWide || isPowerOfTen(value)) : ticks;
  const shown = scale === "log" && !isWide ? kept.filter((value) => "125".includes(leadingDigit(value))) : kept;
  return shown.map((value) => [rounded(at(value)), tick(value)]);
}

const isPowerOfTen = (value: number) => leadingDigit(value) === "1" && Number(value.toPrecision(1)) === value;
const leadingDigit = (value: number) => value.toExponential()[0];
const usualTick = (value: number) =>
  value >= 10_000 ? format("~s")(value) : format(",~r")(Number(value.toPrecision(3)));
const rounded = (value: number) => Math.round(value * 10) / 10;

function pathOf({ points, shape }: Curve, i: number, across: Scale, up: Scale): string {
  if (isMark(shape)) return points.map(([x, y]) => circleOf(shape, i, rounded(across(x)), rounded(up(y)))).join("");
  const [x, y] = [([at]: Point) => rounded(across(at)), ([, value]: Point) => rounded(up(value))];
  const drawn = line<Point>(x, y);
  if (shape !== "line") drawn.curve(curveStepAfter);
  const filled =
    shape === "filled steps"
      ? `<path class="f0" fill-opacity="0.25" d="${area<Point>(x, rounded(up.range()[0]), y).curve(curveStepAfter)(points)}"/>`
      : "";
  return `${filled}<path class="c${i}" fill="none" stroke-width="2" stroke-dasharray="${dashes[i]}" d="${drawn(points)}"/>`;
}

const isMark = (shape: Curve["shape"]): shape is Mark => ["points", "rings", "targets"].includes(shape);

function circleOf(mark: Mark, i: number, x: number, y: number): string {
  if (mark === "points") return `<circle class="f${i}" cx="${x}" cy="${y}" r="3.5"/>`;
  const [radius, line] = mark === "rings" ? [6, 1.5] : [9, 3];
  return `<circle class="c${i}" fill="none" stroke-width="${line}" cx="${x}" cy="${y}" r="${radius}"/>`;
}

/** The intervals as an area of the colour of the curve. */
function bandOf({ band = [] }: Curve, i: number, across: Scale, up: Scale): string {
  if (band.length === 0) return "";
  const drawn = area<readonly [number, number, number]>()
    .x(([x]) => rounded(across(x)))
    .y0(([, low]) => rounded(up(low)))
    .y1(([, , high]) => rounded(up(high)));
  return `<path class="f${i}" fill-opacity="0.2" d="${drawn(band)}"/>`;
}

/** The names of the curves, in rows that are as wide as the chart. */
function legendOf(curves: readonly Curve[]): { readonly parts: string[]; readonly rows: number } {
  let x = margin.left;
  let row = 0;
  const parts = curves.map(({ label, shape }, i) => {
    const length = 50 + 7.2 * label.length;
    if (x > margin.left && x + length > width - margin.right + 16) {
      x = margin.left;
      row++;
    }
    const [at, y] = [x, 66 + legendRow * row];
    x += length;
    const symbol = isMark(shape)
      ? circleOf(shape, i, at + 14, y)
      : `<line class="c${i}" x1="${at}" x2="${at + 26}" y1="${y}" y2="${y}" stroke-width="2" stroke-dasharray="${dashes[i]}"/>`;
    return `${symbol}<text x="${at + 32}" y="${y + 4}">${escaped(label)}</text>`;
  });
  return { parts, rows: row + 1 };
}

/** A text in XML or HTML, also in an attribute. */
export const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

interface Frame {
  readonly width: number;
  readonly height: number;
  /** Where the title begins. */
  readonly left: number;
  readonly title: string;
  readonly subtitle: string;
}

/** An SVG document with a title, a subtitle and these elements. */
export const framed = ({ width, height, left, title, subtitle }: Frame, parts: readonly string[]): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="${escaped(title)}">
<style>${chartStyle}
</style>
<rect class="ground" width="${width}" height="${height}"/>
<text x="${left}" y="24" font-size="15" font-weight="600">${escaped(title)}</text>
<text class="muted" x="${left}" y="44">${escaped(subtitle)}</text>
${parts.join("\n")}
</svg>
`;
