import { axisBottom, axisLeft } from "d3-axis";
import { type ScaleLinear, type ScaleLogarithmic, scaleLinear, scaleLog } from "d3-scale";
import { type Selection, select } from "d3-selection";
import { area, curveLinear, curveStepAfter, line } from "d3-shape";
import "d3-transition";
import { announce } from "../controls/dom.ts";
import type { Line, Point } from "../data/lines.ts";
import { dashes } from "../data/series-style.ts";
import { placeLabels } from "./label-placement.ts";
import { drawMarker, drawSample, sampleWidth } from "./markers.ts";
import { drawTooltip, type Group } from "./tooltip.ts";

interface Axis {
  readonly label: string;
  readonly log?: boolean;
  /** Whether the axis starts at 0 instead of the smallest value. */
  readonly fromZero?: boolean;
  /** End of the axis; otherwise a round number above the largest value. */
  readonly max?: number;
  /** Smallest and largest values that the axis has to show; otherwise those of the lines. For figures with equal axes. */
  readonly extent?: readonly [number, number];
  readonly ticks?: readonly number[];
  format(value: number): string;
}

export interface LineOptions {
  /** For screen readers. */
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  /** Whether each point has a mark. */
  readonly marks: boolean;
  /** Pixels, without a legend; default: 380. */
  readonly height?: number;
  /** Whether the lines have labels; default: true. */
  readonly hasLabels?: boolean;
  /** Called when a point is clicked, or Space is pressed on it. */
  open?(line: number, point: number): void;
}

const defaultHeight = 380;
type Scale = ScaleLinear<number, number> | ScaleLogarithmic<number, number>;
const dashOf = ({ style, isBound }: Line) => (isBound ? "5 4" : dashes[style.variant]);
/** Opacity of the lines that are not isolated. */
const fadedOpacity = 0.12;

/** Whether a line has a single point, which is labelled beside it. */
const isSinglePoint = ({ isHorizontal, points }: Line) => !isHorizontal && points.length === 1;
const reducesMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A line chart with labels at the ends of the lines, animated updates, and tooltips for pointer and arrow keys. */
export class LineChart {
  readonly #svg: Selection<SVGSVGElement, unknown, null, undefined>;
  readonly #host: HTMLElement;
  #options: LineOptions;
  readonly #layers: Readonly<Record<"x" | "y" | "bands" | "lines" | "marks" | "labels" | "hover", Group>>;
  #lines: readonly Line[] = [];
  #scales = { x: (_: number) => 0, y: (_: number) => 0, left: 0, right: 0, top: 0, bottom: 0 };
  #selected = { line: 0, point: 0 };
  /** The label of the line that a click has isolated. */
  #isolated: string | undefined;

  constructor(host: HTMLElement, options: LineOptions) {
    this.#host = host;
    this.#options = options;
    this.#svg = select(host).append("svg").attr("class", "chart").attr("role", "img").attr("tabindex", 0);
    this.#layers = {
      x: this.#svg.append("g").attr("class", "axis"),
      y: this.#svg.append("g").attr("class", "axis"),
      bands: this.#svg.append("g").attr("fill-opacity", 0.18),
      lines: this.#svg.append("g").attr("fill", "none").attr("stroke-width", 2.25),
      marks: this.#svg.append("g"),
      labels: this.#svg.append("g").attr("class", "names"),
      hover: this.#svg.append("g").attr("data-hover", "").attr("class", "hover"),
    };
    this.#svg
      .on("pointermove", (event: PointerEvent) => this.#selectNearest(event))
      .on("pointerleave blur", () => this.#layers.hover.selectAll("*").remove())
      .on("click", (event: MouseEvent) => {
        if (!(event.target as Element).closest(".name")) this.#openSelected();
      })
      .on("keydown", (event: KeyboardEvent) => this.#key(event));
  }

  update(lines: readonly Line[], options: LineOptions = this.#options): void {
    const isFirst = this.#lines.length === 0;
    const selectedLabel = this.#lines[this.#selected.line]?.label;
    this.#lines = lines;
    this.#options = options;
    const line = Math.max(
      0,
      lines.findIndex(({ label }) => label === selectedLabel),
    );
    this.#selected = {
      line,
      point: Math.max(0, Math.min(this.#selected.point, (lines[line]?.points.length ?? 0) - 1)),
    };
    this.#layers.hover.selectAll("*").remove();
    this.draw(!isFirst && !reducesMotion());
  }

  draw(isAnimated = false): void {
    const lines = this.#lines;
    const { title, x, y, height = defaultHeight, hasLabels = true } = this.#options;
    const width = this.#host.clientWidth;
    if (width === 0) return;
    if (lines.length === 0) return void this.#clear();
    const isNarrow = width < 560;
    const longest = Math.max(...lines.filter((each) => !isSinglePoint(each)).map(({ label }) => label.length), 4);
    const widest = isNarrow ? 100 : Math.min(270, width * 0.36);
    const beside = 26 + sampleWidth + longest * 8;
    const legend = hasLabels && hasLegend(lines, beside > widest, isNarrow) ? legendOf(lines, width) : undefined;
    const margin = { top: 30, right: legend || !hasLabels ? 16 : Math.min(widest, beside), bottom: 46, left: 58 };
    const [left, right] = [margin.left, width - margin.right];
    const xs = scaleOf(
      x,
      lines.flatMap(({ isHorizontal, points }) => (isHorizontal ? [] : points.map((p) => p.x))),
    ).range([left, right]);
    const ys = scaleOf(
      y,
      lines.flatMap(({ points }) => points.flatMap(({ y, low = y, high = y }) => [low, y, high])),
    ).range([height - margin.bottom, margin.top]);
    this.#scales = { x: xs, y: ys, left, right, top: margin.top, bottom: height - margin.bottom };
    const summary = lines.map(({ label, points }) => `${label}: ${points.at(-1)?.text ?? ""}`).join("; ");
    const total = height + (legend?.height ?? 0);
    this.#svg.attr("viewBox", `0 0 ${width} ${total}`).attr("height", total).attr("width", width);
    this.#svg.attr("aria-label", `${title}. ${summary}. Arrow keys read the points; Enter isolates a line.`);
    this.#drawAxes(xs, ys, isNarrow);
    const durationMs = isAnimated ? 450 : 0;
    this.#drawBands(durationMs);
    this.#drawLines(durationMs);
    this.#drawMarks(durationMs);
    if (hasLabels) this.#drawLabels(durationMs, isNarrow, legend && { ...legend, top: height });
  }

  /** Removes the drawing. */
  #clear(): void {
    for (const layer of Object.values(this.#layers)) layer.selectAll("*").interrupt().remove();
    this.#svg.attr("height", 0).attr("aria-label", this.#options.title);
  }

  #drawAxes(xs: Scale, ys: Scale, isNarrow: boolean): void {
    const { x, y } = this.#options;
    const { left, right, bottom } = this.#scales;
    const across = axisBottom<number>(xs).tickFormat(onceEach(x.format)).tickSizeOuter(0);
    if (x.ticks) across.tickValues([...x.ticks]);
    else if (x.log) {
      const ticks = logTicks(xs.domain());
      across.tickValues(ticks.filter((_, i) => !isNarrow || i % Math.ceil(ticks.length / 4) === 0));
    } else across.ticks(isNarrow ? 3 : 8);
    const up = axisLeft<number>(ys)
      .ticks(6)
      .tickFormat(onceEach(y.format))
      .tickSize(-(right - left));
    if (y.log) up.tickValues(logTicks(ys.domain()));
    this.#layers.x.attr("transform", `translate(0,${bottom})`).call(across);
    this.#layers.y
      .attr("transform", `translate(${left},0)`)
      .call(up)
      .call((g) => g.select(".domain").remove());
    drawAxisTitle(this.#layers.x, x.label, (left + right) / 2, 38, "middle");
    drawAxisTitle(this.#layers.y, y.label, -left + 6, 14, "start");
  }

  #drawLines(durationMs: number): void {
    const { x, y, left, right } = this.#scales;
    const path = ({ points, breaks, isStepped }: Line) =>
      segmentsOf(points, breaks)
        .map(
          line<Point>(
            (p) => x(p.x),
            (p) => y(p.y),
          ).curve(isStepped ? curveStepAfter : curveLinear),
        )
        .join("");
    this.#layers.lines
      .selectAll<SVGPathElement, Line>("path")
      .data(this.#lines, ({ label }) => label)
      .join("path")
      .attr("stroke", ({ style }) => style.colour)
      .attr("stroke-dasharray", dashOf)
      .attr("opacity", ({ label }) => this.#opacityOf(label))
      .transition()
      .duration(durationMs)
      .attr("d", (each) =>
        each.isHorizontal ? `M${left},${y(each.points[0].y)}L${right},${y(each.points[0].y)}` : path(each),
      );
  }

  /** A band where the points of a line have limits; without them it has no height. */
  #drawBands(durationMs: number): void {
    const { x, y } = this.#scales;
    const drawn = area<Point>(
      (p) => x(p.x),
      (p) => y(p.low ?? p.y),
      (p) => y(p.high ?? p.y),
    );
    const path = ({ points, breaks }: Line) =>
      segmentsOf(points, breaks)
        .map((segment) => drawn(segment))
        .join("");
    const banded = this.#lines.filter(({ points }) => points.some(({ low, high }) => low !== high));
    this.#layers.bands
      .selectAll<SVGPathElement, Line>("path")
      .data(banded, ({ label }) => label)
      .join("path")
      .attr("fill", ({ style }) => style.colour)
      .attr("opacity", ({ label }) => this.#opacityOf(label))
      .transition()
      .duration(durationMs)
      .attr("d", path);
  }

  #drawMarks(durationMs: number): void {
    const { x, y } = this.#scales;
    const marks = this.#lines.flatMap(({ label, style, isHorizontal, isStepped, markArea, points }) =>
      this.#options.marks && !isHorizontal && !isStepped
        ? points.map((p, i) => ({ key: `${label}\n${i}`, label, style, markArea, ...p }))
        : [],
    );
    const place = (p: Point) => `translate(${x(p.x)},${y(p.y)})`;
    this.#layers.marks
      .selectAll<SVGPathElement, (typeof marks)[number]>("path")
      .data(marks, ({ key }) => key)
      .join((enter) => enter.append("path").attr("transform", place))
      .attr("d", ({ style, markArea }) => drawMarker(style, markArea))
      .attr("fill", ({ style }) => style.colour)
      .attr("opacity", ({ label }) => this.#opacityOf(label))
      .transition()
      .duration(durationMs)
      .attr("transform", place);
  }

  #opacityOf(label: string): number | null {
    return this.#isolated === undefined || this.#isolated === label ? null : fadedOpacity;
  }

  /** Fades all lines but one, or none if it is already alone or there is no such line. */
  #isolate(label: string | undefined): void {
    const isKnown = this.#lines.some((each) => each.label === label);
    this.#isolated = isKnown && label !== this.#isolated ? label : undefined;
    this.draw();
    announce(this.#isolated === undefined ? "All lines are shown" : `Only ${this.#isolated} is shown`);
  }

  /**
   * Labels are in a column at the ends of the lines, or beside a single point; where these places are too small, in a legend below
   * the figure. A click on one isolates its line.
   */
  #drawLabels(durationMs: number, isNarrow: boolean, legend?: Legend & { readonly top: number }): void {
    const { x, y, right, top, bottom } = this.#scales;
    const width = this.#host.clientWidth;
    const maxLength = legend
      ? Math.floor((width - sampleWidth - 12) / letterWidth)
      : isNarrow
        ? 14
        : Math.max(14, Math.floor((width - right - 16 - sampleWidth) / letterWidth));
    const inLegend = legend?.places.map((at, i) => ({
      ...this.#lines[i],
      x: at.x,
      y: legend.top + at.y,
      isLeft: false,
    }));
    const besideLines = () =>
      [true, false].flatMap((single) => {
        const group = this.#lines.filter((each) => isSinglePoint(each) === single);
        const ends = group.map(({ points }) => y(points.at(-1)?.y ?? 0));
        const heights = placeLabels(ends, isNarrow ? 13 : 16, top, bottom);
        return group.map((each, i) => {
          const at = single ? x(each.points[0].x) : right;
          const isLeft = single && at + sampleWidth + each.label.length * 8 > right;
          return { ...each, x: at + (isLeft ? -9 : 9), y: heights[i], isLeft };
        });
      });
    const placed = inLegend ?? besideLines();
    const shortened = (label: string) => (label.length > maxLength ? `${label.slice(0, maxLength - 1)}…` : label);
    const place = (name: (typeof placed)[number]) => `translate(${name.x},${name.y})`;
    const groups = this.#layers.labels
      .selectAll<SVGGElement, (typeof placed)[number]>("g.name")
      .data(placed, ({ label }) => label)
      .join((enter) => {
        const group = enter.append("g").attr("class", "name").attr("transform", place);
        group.append("g");
        group.append("text").attr("dy", "0.32em").attr("fill", "currentColor");
        return group;
      });
    groups.on("click", (_, { label }) => this.#isolate(label)).attr("opacity", ({ label }) => this.#opacityOf(label));
    groups.select<SVGGElement>("g").each(function (name) {
      drawSample(select<SVGGElement, unknown>(this), name.style, dashOf(name), name.isLeft, !name.isBound);
    });
    groups
      .select("text")
      .attr("x", ({ isLeft }) => (isLeft ? -1 : 1) * (sampleWidth + 5))
      .attr("text-anchor", ({ isLeft }) => (isLeft ? "end" : "start"))
      .text(({ label }) => shortened(label))
      .filter(({ label }) => shortened(label) !== label)
      .append("title")
      .text(({ label }) => label);
    groups.transition().duration(durationMs).attr("transform", place);
  }

  #openSelected(): void {
    const { line, point } = this.#selected;
    if (this.#lines[line]?.points[point]) this.#options.open?.(line, point);
  }

  #selectNearest(event: PointerEvent): void {
    const box = this.#svg.node()!.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = Number.POSITIVE_INFINITY;
    this.#lines.forEach(({ isHorizontal, points }, l) => {
      points.forEach((p, i) => {
        const x = isHorizontal ? px : this.#scales.x(p.x);
        const distance = (x - px) ** 2 + (this.#scales.y(p.y) - py) ** 2;
        if (distance < nearest) {
          nearest = distance;
          this.#selected = { line: l, point: i };
        }
      });
    });
    this.#showTooltip(px);
  }

  #key(event: KeyboardEvent): void {
    if (event.key === "Enter") this.#isolate(this.#lines[this.#selected.line]?.label);
    if (event.key === "Escape") this.#isolate(undefined);
    if (event.key === " " && this.#options.open) {
      event.preventDefault();
      this.#openSelected();
    }
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const count = this.#lines.length;
    if (count === 0) return;
    const at = { line: (this.#selected.line + step[0] + count) % count, point: this.#selected.point + step[1] };
    const { points } = this.#lines[at.line];
    this.#selected = { line: at.line, point: Math.max(0, Math.min(points.length - 1, at.point)) };
    announce(this.#showTooltip((this.#scales.left + this.#scales.right) / 2));
  }

  /** Shows the tooltip of the selected point and returns its text. */
  #showTooltip(pointerX: number): string {
    const line = this.#lines[this.#selected.line];
    const point = line.points[this.#selected.point];
    const { left, right } = this.#scales;
    const x = line.isHorizontal ? Math.max(left, Math.min(right, pointerX)) : this.#scales.x(point.x);
    const y = this.#scales.y(point.y);
    const { hover } = this.#layers;
    hover.selectAll("*").remove();
    hover
      .append("circle")
      .attr("cx", x)
      .attr("cy", y)
      .attr("r", 5.5)
      .attr("fill", "none")
      .attr("stroke", line.style.colour)
      .attr("stroke-width", 2);
    drawTooltip(hover, x, y, [line.label, ...point.text.split("\n")], this.#host.clientWidth);
    return `${line.label}: ${point.text}`;
  }
}

/** Width of a letter of a label, pixels. */
const letterWidth = 7.7;
/** Letters of a label that always fit beside a point. */
const shortLabel = 14;
const legendRow = 19;

interface Legend {
  /** Of each line, from the top of the legend. */
  readonly places: readonly { readonly x: number; readonly y: number }[];
  readonly height: number;
}

/** Whether labels beside the lines would be cut off or in the way. */
function hasLegend(lines: readonly Line[], areCutOff: boolean, isNarrow: boolean): boolean {
  const single = lines.filter(isSinglePoint);
  const crowd = isNarrow ? 2 : 5;
  return areCutOff || single.length > crowd || single.some(({ label }) => label.length > shortLabel);
}

/** Labels in rows as wide as the figure. */
function legendOf(lines: readonly Line[], width: number): Legend {
  let [x, y] = [4, 10];
  const places = lines.map(({ label }) => {
    const needed = sampleWidth + 5 + label.length * letterWidth + 14;
    if (x > 4 && x + needed > width) [x, y] = [4, y + legendRow];
    const place = { x, y };
    x += needed;
    return place;
  });
  return { places, height: y + legendRow };
}

/** The points of each unbroken part of a line. */
function segmentsOf(points: readonly Point[], breaks: ReadonlySet<number> = new Set()): Point[][] {
  const segments: Point[][] = [];
  points.forEach((point, i) => {
    if (i === 0 || breaks.has(i)) segments.push([]);
    segments.at(-1)!.push(point);
  });
  return segments;
}

/** Draws the title of an axis, or moves the one that it has. */
export function drawAxisTitle(axis: Group, label: string, x: number, y: number, anchor: string): void {
  axis
    .selectAll<SVGTextElement, string>("text.title")
    .data([label])
    .join("text")
    .attr("class", "title")
    .attr("x", x)
    .attr("y", y)
    .attr("text-anchor", anchor)
    .text(label);
}

function scaleOf({ log, fromZero, max, extent }: Axis, ofLines: readonly number[]): Scale {
  const values = [...ofLines, ...(extent ?? [])];
  const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  const low = finite.length === 0 ? 1 : Math.min(...finite);
  const high = finite.length === 0 ? 2 : Math.max(...finite);
  if (log)
    return scaleLog()
      .domain(low === high ? [low / 2, high * 2] : [low, high])
      .clamp(true);
  const domain = [
    fromZero ? Math.min(0, low) : low,
    max ?? (high <= (fromZero ? Math.min(0, low) : low) ? high + 1 : high),
  ];
  return max === undefined ? scaleLinear().domain(domain).nice() : scaleLinear().domain(domain);
}

/** 1, 2 and 5 times each power of ten; over more than 3.5 decades only the powers. */
function logTicks([low, high]: readonly number[]): number[] {
  const ticks: number[] = [];
  const isWide = Math.log10(high / low) > 3.5;
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const digit of isWide ? [1] : [1, 2, 5]) {
      const tick = digit * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks;
}

/** A format of ticks that leaves out a text equal to that of the tick before. */
function onceEach(format: (value: number) => string): (value: number) => string {
  let before: string | undefined;
  return (value) => {
    const text = format(Number(value));
    const isRepeated = text === before;
    before = text;
    return isRepeated ? "" : text;
  };
}
