import { axisBottom, axisLeft } from "d3-axis";
import { type ScaleLinear, type ScaleLogarithmic, scaleLinear, scaleLog } from "d3-scale";
import { type Selection, select } from "d3-selection";
import { line } from "d3-shape";
import "d3-transition";
import { announce } from "../controls/dom.ts";
import { spread } from "./spread.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
  /** What hovering says. */
  readonly text: string;
}

export interface Line {
  readonly label: string;
  readonly colour: string;
  readonly dashed?: boolean;
  /** Its one point is a level across the whole figure. */
  readonly isLevel?: boolean;
  readonly points: readonly Point[];
}

interface Axis {
  readonly label: string;
  readonly log?: boolean;
  /** From 0, or from the smallest value. */
  readonly fromZero?: boolean;
  readonly most?: number;
  readonly ticks?: readonly number[];
  format(value: number): string;
}

export interface LineOptions {
  /** What the figure is, for screen readers. */
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  /** A mark at each point. */
  readonly marks: boolean;
}

const height = 380;
type Group = Selection<SVGGElement, unknown, null, undefined>;
type Scale = ScaleLinear<number, number> | ScaleLogarithmic<number, number>;
/** A point without a line. */
const isAlone = ({ isLevel, points }: Line) => !isLevel && points.length === 1;
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Lines with their names at their ends. It moves to new lines; hovering and the arrow keys read single points. */
export class LineChart {
  readonly #svg: Selection<SVGSVGElement, unknown, null, undefined>;
  readonly #host: HTMLElement;
  #options: LineOptions;
  readonly #parts: Readonly<Record<"x" | "y" | "lines" | "marks" | "labels" | "hover", Group>>;
  #lines: readonly Line[] = [];
  #place = { x: (_: number) => 0, y: (_: number) => 0, left: 0, right: 0, top: 0, bottom: 0 };
  #at = { line: 0, point: 0 };

  constructor(host: HTMLElement, options: LineOptions) {
    this.#host = host;
    this.#options = options;
    this.#svg = select(host).append("svg").attr("class", "chart").attr("role", "img").attr("tabindex", 0);
    this.#parts = {
      x: this.#svg.append("g").attr("class", "axis"),
      y: this.#svg.append("g").attr("class", "axis"),
      lines: this.#svg.append("g").attr("fill", "none").attr("stroke-width", 2.25),
      marks: this.#svg.append("g"),
      labels: this.#svg.append("g").attr("class", "names"),
      hover: this.#svg.append("g").attr("data-hover", "").attr("class", "hover"),
    };
    this.#svg
      .on("pointermove", (event: PointerEvent) => this.#point(event))
      .on("pointerleave blur", () => this.#parts.hover.selectAll("*").remove())
      .on("keydown", (event: KeyboardEvent) => this.#key(event));
  }

  update(lines: readonly Line[], options: LineOptions = this.#options): void {
    const isFirst = this.#lines.length === 0;
    const read = this.#lines[this.#at.line]?.label;
    this.#lines = lines;
    this.#options = options;
    const line = Math.max(
      0,
      lines.findIndex(({ label }) => label === read),
    );
    this.#at = { line, point: Math.max(0, Math.min(this.#at.point, (lines[line]?.points.length ?? 0) - 1)) };
    this.#parts.hover.selectAll("*").remove();
    this.draw(!isFirst && !isStill());
  }

  draw(moves = false): void {
    const lines = this.#lines;
    const { title, x, y } = this.#options;
    const width = this.#host.clientWidth;
    if (width === 0) return;
    if (lines.length === 0) return void this.#clear();
    const isNarrow = width < 560;
    const longest = Math.max(...lines.filter((each) => !isAlone(each)).map(({ label }) => label.length), 4);
    const widest = isNarrow ? 100 : Math.min(270, width * 0.36);
    const margin = { top: 30, right: Math.min(widest, 20 + longest * 8), bottom: 46, left: 58 };
    const [left, right] = [margin.left, width - margin.right];
    const xs = scaleOf(
      x,
      lines.flatMap(({ isLevel, points }) => (isLevel ? [] : points.map((p) => p.x))),
    ).range([left, right]);
    const ys = scaleOf(
      y,
      lines.flatMap(({ points }) => points.map((p) => p.y)),
    ).range([height - margin.bottom, margin.top]);
    this.#place = { x: xs, y: ys, left, right, top: margin.top, bottom: height - margin.bottom };
    const summary = lines.map(({ label, points }) => `${label}: ${points.at(-1)?.text ?? ""}`).join("; ");
    this.#svg.attr("viewBox", `0 0 ${width} ${height}`).attr("height", height).attr("width", width);
    this.#svg.attr("aria-label", `${title}. ${summary}. Arrow keys read the points.`);
    this.#drawAxes(xs, ys, isNarrow);
    const milliseconds = moves ? 450 : 0;
    this.#drawLines(milliseconds);
    this.#drawMarks(milliseconds);
    this.#drawNames(milliseconds, isNarrow);
  }

  /** Nothing is left of what was drawn before. */
  #clear(): void {
    for (const part of Object.values(this.#parts)) part.selectAll("*").interrupt().remove();
    this.#svg.attr("height", 0).attr("aria-label", this.#options.title);
  }

  #drawAxes(xs: Scale, ys: Scale, isNarrow: boolean): void {
    const { x, y } = this.#options;
    const { left, right, bottom } = this.#place;
    const across = axisBottom<number>(xs)
      .tickFormat((value) => x.format(Number(value)))
      .tickSizeOuter(0);
    if (x.ticks) across.tickValues([...x.ticks]);
    else if (x.log) {
      const ticks = logTicks(xs.domain());
      across.tickValues(ticks.filter((_, i) => !isNarrow || i % Math.ceil(ticks.length / 4) === 0));
    } else across.ticks(isNarrow ? 3 : 8);
    const up = axisLeft<number>(ys)
      .ticks(6)
      .tickFormat((value) => y.format(Number(value)))
      .tickSize(-(right - left));
    if (y.log) up.tickValues(logTicks(ys.domain()));
    this.#parts.x.attr("transform", `translate(0,${bottom})`).call(across);
    this.#parts.y
      .attr("transform", `translate(${left},0)`)
      .call(up)
      .call((g) => g.select(".domain").remove());
    titled(this.#parts.x, x.label, (left + right) / 2, 38, "middle");
    titled(this.#parts.y, y.label, -left + 6, 14, "start");
  }

  #drawLines(milliseconds: number): void {
    const { x, y, left, right } = this.#place;
    const path = line<Point>(
      (p) => x(p.x),
      (p) => y(p.y),
    );
    this.#parts.lines
      .selectAll<SVGPathElement, Line>("path")
      .data(this.#lines, ({ label }) => label)
      .join("path")
      .attr("stroke", ({ colour }) => colour)
      .attr("stroke-dasharray", ({ dashed }) => (dashed ? "5 4" : null))
      .transition()
      .duration(milliseconds)
      .attr("d", ({ isLevel, points }) =>
        isLevel ? `M${left},${y(points[0].y)}L${right},${y(points[0].y)}` : path(points),
      );
  }

  #drawMarks(milliseconds: number): void {
    const { x, y } = this.#place;
    const marks = this.#lines.flatMap(({ label, colour, isLevel, points }) =>
      this.#options.marks && !isLevel ? points.map((p, i) => ({ key: `${label}\n${i}`, colour, ...p })) : [],
    );
    this.#parts.marks
      .selectAll<SVGCircleElement, (typeof marks)[number]>("circle")
      .data(marks, ({ key }) => key)
      .join((enter) =>
        enter
          .append("circle")
          .attr("r", 3.5)
          .attr("cx", (p) => x(p.x))
          .attr("cy", (p) => y(p.y)),
      )
      .attr("fill", ({ colour }) => colour)
      .transition()
      .duration(milliseconds)
      .attr("cx", (p) => x(p.x))
      .attr("cy", (p) => y(p.y));
  }

  /** Names stand at the ends of lines in a column of their own, or beside a point that is alone. */
  #drawNames(milliseconds: number, isNarrow: boolean): void {
    const { x, y, right, top, bottom } = this.#place;
    const most = isNarrow ? 14 : Math.max(14, Math.floor((this.#host.clientWidth - right - 12) / 7.7));
    const placed = [true, false].flatMap((alone) => {
      const group = this.#lines.filter((each) => isAlone(each) === alone);
      const ends = group.map(({ points }) => y(points.at(-1)?.y ?? 0));
      const heights = spread(ends, isNarrow ? 13 : 16, top, bottom);
      return group.map(({ label, colour, points }, i) => {
        const at = alone ? x(points[0].x) : right;
        const isLeft = alone && at + label.length * 8 > right;
        return { label, colour, x: at + (isLeft ? -9 : 9), y: heights[i], anchor: isLeft ? "end" : "start" };
      });
    });
    this.#parts.labels
      .selectAll<SVGTextElement, (typeof placed)[number]>("text")
      .data(placed, ({ label }) => label)
      .join((enter) => enter.append("text").attr("y", (name) => name.y))
      .attr("x", (name) => name.x)
      .attr("dy", "0.32em")
      .attr("text-anchor", ({ anchor }) => anchor)
      .attr("fill", ({ colour }) => colour)
      .text(({ label }) => (label.length > most ? `${label.slice(0, most - 1)}…` : label))
      .transition()
      .duration(milliseconds)
      .attr("y", (name) => name.y);
  }

  #point(event: PointerEvent): void {
    const box = this.#svg.node()!.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = Number.POSITIVE_INFINITY;
    this.#lines.forEach(({ isLevel, points }, l) => {
      points.forEach((p, i) => {
        const x = isLevel ? px : this.#place.x(p.x);
        const far = (x - px) ** 2 + (this.#place.y(p.y) - py) ** 2;
        if (far < nearest) {
          nearest = far;
          this.#at = { line: l, point: i };
        }
      });
    });
    this.#read(px);
  }

  #key(event: KeyboardEvent): void {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const count = this.#lines.length;
    if (count === 0) return;
    const at = { line: (this.#at.line + step[0] + count) % count, point: this.#at.point + step[1] };
    const { points } = this.#lines[at.line];
    this.#at = { line: at.line, point: Math.max(0, Math.min(points.length - 1, at.point)) };
    announce(this.#read((this.#place.left + this.#place.right) / 2));
  }

  /** Shows the point that was found and returns what it says. */
  #read(pointerX: number): string {
    const line = this.#lines[this.#at.line];
    const point = line.points[this.#at.point];
    const { left, right } = this.#place;
    const x = line.isLevel ? Math.max(left, Math.min(right, pointerX)) : this.#place.x(point.x);
    const y = this.#place.y(point.y);
    const { hover } = this.#parts;
    hover.selectAll("*").remove();
    hover
      .append("circle")
      .attr("cx", x)
      .attr("cy", y)
      .attr("r", 5.5)
      .attr("fill", "none")
      .attr("stroke", line.colour)
      .attr("stroke-width", 2);
    tip(hover, x, y, [line.label, ...point.text.split("\n")], this.#host.clientWidth);
    return `${line.label}: ${point.text}`;
  }
}

/** A box of lines beside a point, within the figure. */
export function tip(hover: Group, x: number, y: number, lines: readonly string[], width: number): void {
  const group = hover.append("g").attr("class", "tip");
  const box = group.append("rect").attr("rx", 6);
  const text = group.append("text");
  lines.forEach((each, i) => {
    text
      .append("tspan")
      .attr("x", 0)
      .attr("dy", i === 0 ? 0 : "1.35em")
      .attr("font-weight", i === 0 ? 600 : 400)
      .text(each);
  });
  const size = text.node()!.getBBox();
  box
    .attr("x", size.x - 9)
    .attr("y", size.y - 6)
    .attr("width", size.width + 18)
    .attr("height", size.height + 12);
  const isRight = x + size.width + 32 < width;
  const at = [isRight ? x + 20 : Math.max(10, x - size.width - 20), Math.max(24, y - size.height / 2)];
  group.attr("transform", `translate(${at[0]},${at[1]})`);
}

/** The name of an axis, once. */
export function titled(axis: Group, label: string, x: number, y: number, anchor: string): void {
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

function scaleOf({ log, fromZero, most }: Axis, values: readonly number[]): Scale {
  const finite = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  const low = finite.length === 0 ? 1 : Math.min(...finite);
  const high = finite.length === 0 ? 2 : Math.max(...finite);
  if (log)
    return scaleLog()
      .domain(low === high ? [low / 2, high * 2] : [low, high])
      .clamp(true);
  const domain = [fromZero ? 0 : low, most ?? (high === (fromZero ? 0 : low) ? high + 1 : high)];
  return most === undefined ? scaleLinear().domain(domain).nice() : scaleLinear().domain(domain);
}

/** 1, 2 and 5 of each power of ten; only powers where there are many. */
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
