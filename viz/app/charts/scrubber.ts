import { axisBottom } from "d3-axis";
import { scaleLinear } from "d3-scale";
import { type Selection, select } from "d3-selection";
import { area, curveStepBefore } from "d3-shape";
import type { LogData } from "../../api.ts";
import { h } from "../controls/dom.ts";
import { approximate, integer } from "../data/format.ts";
import { legendName } from "./block-colours.ts";
import { figure, onWidth } from "./figure.ts";

/** An event log and the label of its run; "" if there is only one. */
export interface NamedLog {
  readonly name: string;
  readonly log: LogData;
}

const margin = { left: 54, right: 16, top: 26 };
const bandsHeight = 64;
const evictionsHeight = 26;
const gap = 34;

const bands = [
  { name: "cached, referenced", colour: "var(--c0)", of: ({ overview }: LogData) => overview.held },
  { name: "private", colour: "var(--c1)", of: ({ overview }: LogData) => overview.private },
  { name: "cached, idle", colour: "var(--idle)", of: ({ overview }: LogData) => overview.idle },
];

type Svg = Selection<SVGSVGElement, unknown, null, undefined>;

/** An overview of one or two event logs, and a slider over it that selects an event. */
export class Scrubber {
  readonly element: HTMLElement;
  /** Receives pointer events and the focus. */
  readonly slider: HTMLElement;
  readonly #logs: readonly NamedLog[];
  readonly #svg: Svg;
  readonly #body: HTMLElement;
  readonly #events: number;
  /** A separate layer, so that the overview is not repainted when it moves. */
  readonly #handle = h("div", { class: "handle" });
  #x = scaleLinear();
  #event = 0;

  /** `go` is called with the event that the slider is dragged to. */
  constructor(logs: readonly NamedLog[], go: (event: number) => void, signal: AbortSignal) {
    this.#logs = logs;
    this.#events = Math.max(...logs.map(({ log }) => log.events));
    const { element, body, note } = figure("Event log");
    note(
      "Drag the slider, or use the keyboard: arrow keys move by one event, with Shift by one step of the model. With the focus on " +
        "the slider, its buttons or a figure, Page Up and Page Down move by 1% of the log, Home and End to its ends; Space plays.",
    );
    this.element = element;
    this.#body = body;
    this.#svg = select(body).append("svg").attr("role", "img");
    const range = { "aria-label": "Playhead: event", "aria-valuemin": 0, "aria-valuemax": this.#events };
    this.slider = h("div", { class: "slider", role: "slider", tabindex: 0, ...range }, this.#handle);
    body.append(this.slider);
    this.#drag(go);
    onWidth(body, signal, () => this.#draw());
  }

  /** Moves the slider to an event; `text`: its value for screen readers. */
  move(event: number, text: string): void {
    this.#event = event;
    this.slider.setAttribute("aria-valuenow", String(event));
    this.slider.setAttribute("aria-valuetext", text);
    this.#moveHandle();
  }

  #drag(go: (event: number) => void): void {
    const { slider } = this;
    const goTo = ({ clientX }: PointerEvent) => {
      const x = clientX - slider.getBoundingClientRect().left + margin.left;
      go(Math.max(0, Math.min(this.#events, Math.round(this.#x.invert(x)))));
    };
    slider.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      slider.setPointerCapture(event.pointerId);
      goTo(event);
    });
    slider.addEventListener("pointermove", (event) => {
      if (slider.hasPointerCapture(event.pointerId)) goTo(event);
    });
  }

  #draw(): void {
    const width = this.#body.clientWidth;
    const right = width - margin.right;
    const panel = bandsHeight + evictionsHeight + gap;
    const bottom = margin.top + this.#logs.length * panel - gap + 4;
    this.#x = scaleLinear([0, this.#events], [margin.left, right]);
    const svg = this.#svg;
    svg.selectAll("*").remove();
    svg
      .attr("width", width)
      .attr("height", bottom + 42)
      .attr("viewBox", `0 0 ${width} ${bottom + 42}`)
      .attr("aria-label", this.#logs.map(describe).join(" "));
    this.#logs.forEach((each, i) => {
      this.#drawLog(each, margin.top + i * panel);
    });
    const ticks = axisBottom(this.#x)
      .ticks(width < 560 ? 4 : 10)
      .tickFormat((event) => approximate(Number(event)))
      .tickSizeOuter(0);
    const axis = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`).call(ticks);
    axis
      .append("text")
      .attr("class", "title")
      .attr("x", (margin.left + right) / 2)
      .attr("y", 36)
      .attr("text-anchor", "middle")
      .text("events");
    Object.assign(this.slider.style, {
      left: `${margin.left}px`,
      width: `${right - margin.left}px`,
      top: `${margin.top - 14}px`,
      height: `${bottom - margin.top + 14}px`,
    });
    this.#moveHandle();
  }

  #drawLog({ name, log }: NamedLog, y0: number): void {
    const { overview, blocks } = log;
    const group = this.#svg.append("g").attr("transform", `translate(0,${y0})`);
    const heading = group.append("text").attr("x", margin.left).attr("y", -8).attr("class", "names");
    const width = this.#body.clientWidth;
    const title = this.#logs.length > 1 ? name : width < 560 ? "" : "blocks";
    heading.attr("fill", "currentColor").text(title && `${title}  `);
    for (const { name: band, colour } of bands) {
      heading.append("tspan").attr("fill", colour).text("■ ");
      heading
        .append("tspan")
        .attr("font-weight", 400)
        .text(`${legendName(band, width)}   `);
    }
    heading.append("tspan").attr("fill", "var(--c4)").text("■ ");
    heading.append("tspan").attr("font-weight", 400).text("evicted");
    const xs = [0, ...overview.event].map((event) => this.#x(event));
    const rows = xs.map((_, i) => i);
    const y = scaleLinear([0, Math.max(1, blocks)], [bandsHeight, 0]);
    group
      .append("rect")
      .attr("x", xs[0])
      .attr("y", 0)
      .attr("width", xs.at(-1)! - xs[0])
      .attr("height", bandsHeight)
      .attr("fill", "var(--free)");
    const below = xs.map(() => 0);
    for (const { colour, of } of bands) {
      const lower = [...below];
      of(log).forEach((count, i) => {
        below[i + 1] += count;
      });
      const shape = area<number>()
        .curve(curveStepBefore)
        .x((i) => xs[i])
        .y0((i) => y(lower[i]))
        .y1((i) => y(below[i]));
      group.append("path").attr("d", shape(rows)).attr("fill", colour);
    }
    const max = Math.max(1, ...overview.evicted);
    const evicted = scaleLinear([0, max], [0, evictionsHeight]);
    const bar = area<number>()
      .curve(curveStepBefore)
      .x((i) => xs[i])
      .y0(bandsHeight + 4 + evictionsHeight)
      .y1((i) => bandsHeight + 4 + evictionsHeight - evicted(overview.evicted[Math.max(0, i - 1)] ?? 0));
    group.append("path").attr("d", bar(rows)).attr("fill", "var(--c4)");
    drawTick(group, approximate(blocks), 4);
    drawTick(group, "0", bandsHeight);
    drawTick(group, approximate(max), bandsHeight + 4 + evictionsHeight / 2 + 4);
  }

  #moveHandle(): void {
    this.#handle.style.transform = `translateX(${this.#x(this.#event) - margin.left}px)`;
  }
}

/** Draws an axis value at the left edge. */
function drawTick(group: Selection<SVGGElement, unknown, null, undefined>, text: string, y: number): void {
  group
    .append("g")
    .attr("class", "axis")
    .append("text")
    .attr("x", margin.left - 6)
    .attr("y", y)
    .attr("dy", "0.3em")
    .attr("text-anchor", "end")
    .text(text);
}

function describe({ name, log }: NamedLog): string {
  const { events, blocks, kinds } = log;
  return `${name}: ${integer(events)} events, ${integer(blocks)} blocks, ${integer(kinds["evict"] ?? 0)} evictions.`;
}
