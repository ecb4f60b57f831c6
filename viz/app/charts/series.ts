import { axisBottom, axisLeft } from "d3-axis";
import { brushX, type D3BrushEvent } from "d3-brush";
import { scaleLinear } from "d3-scale";
import { type Selection, select } from "d3-selection";
import { area, line } from "d3-shape";
import type { SeriesData } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { approximate, integer, percent } from "../controls/format.ts";
import type { Page } from "../page.ts";
import { remember } from "../route.ts";
import { figure, onWidth } from "./figure.ts";
import { tip } from "./lines.ts";

/** A value of each interval; undefined where there is none. */
type Values = readonly (number | undefined)[];

interface Band {
  readonly name: string;
  readonly colour: string;
  readonly values: Values;
}

/** One figure of the many: its bands lie on each other if they are stacked. */
interface Panel {
  readonly title: string;
  readonly bands: readonly Band[];
  readonly stacked?: boolean;
  readonly most?: number;
  readonly height: number;
  text(value: number): string;
}

const gap = 40;
const top = 24;

/** Where a series comes from: at most `bins` intervals within the range. */
type Source = (bins: number, range: Range | undefined, signal: AbortSignal) => Promise<SeriesData>;

export interface SeriesFigure {
  readonly element: HTMLElement;
  /** Fetches and draws it anew, unless the pointer or the keyboard is in it. */
  refresh(): Promise<void>;
}

/** Everything over time, on one axis. Dragging zooms in, and finer intervals are fetched. */
export function seriesFigure({ params, left }: Page, source: Source): SeriesFigure {
  const { element, body, tools, note } = figure("Over time");
  let range = rangeOf(params);
  let data: SeriesData | undefined;
  let asked = new AbortController();
  const svg = select(body)
    .append("svg")
    .attr("class", "chart series")
    .attr("role", "img")
    .attr("tabindex", 0)
    .attr("aria-label", "Over time");
  const whole = h("button", { type: "button", hidden: !range, click: () => zoom(undefined) }, "Whole run");
  tools.append(h("span", { class: "hint" }, "Drag to zoom"), whole);
  let at: number | undefined;
  let read: ReadAt = () => "";
  const draw = () => {
    if (data) read = drawSeries(svg, body.clientWidth, data, (to) => zoom(to));
  };
  const load = async () => {
    asked.abort();
    asked = new AbortController();
    try {
      data = await source(binsFor(body.clientWidth), range, AbortSignal.any([left, asked.signal]));
      at = undefined;
      note(data.startNs.length === 0 ? "There is nothing in this span." : lengthOf(data));
      draw();
    } catch (error) {
      if ((error as Error).name !== "AbortError") note((error as Error).message);
    }
  };
  const zoom = (to: Range | undefined) => {
    range = to;
    whole.hidden = !to;
    remember({ from: to?.[0], to: to?.[1] });
    void load();
  };
  svg.on("blur", () => svg.selectAll(".hover *").remove());
  svg.on("keydown", (event: KeyboardEvent) => {
    const step = event.shiftKey ? ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0) : 0;
    if (data && step !== 0) {
      event.preventDefault();
      const last = data.startNs.length - 1;
      at = Math.max(0, Math.min(last, (at ?? (step > 0 ? -1 : last + 1)) + step));
      announce(read(at));
      return;
    }
    const now = range ?? (data && spanOf(data));
    const next = now && keyed(event.key, now);
    if (!now || next === now) return;
    event.preventDefault();
    zoom(next);
    announce(next ? `From ${seconds(next[0])} to ${seconds(next[1])}` : "The whole run");
  });
  onWidth(body, left, () => (data ? draw() : void load()));
  const refresh = async () => {
    const isRead = body.matches(":hover") || svg.node()!.matches(":focus-visible");
    if (body.clientWidth > 0 && !isRead) await load();
  };
  return { element, refresh };
}

type Range = readonly [fromNs: number, toNs: number];

function rangeOf(params: URLSearchParams): Range | undefined {
  const [from, to] = [Number(params.get("from") ?? Number.NaN), Number(params.get("to") ?? Number.NaN)];
  return to > from ? [from, to] : undefined;
}

const binsFor = (width: number) => Math.max(60, Math.min(600, Math.round(width / 4)));
const spanOf = ({ startNs, endNs }: SeriesData): Range => [startNs[0] ?? 0, endNs.at(-1) ?? 1];
const seconds = (ns: number) => `${approximate(ns / 1e9)} s`;

/** Arrows move by a quarter, + and − zoom, Escape shows all. */
function keyed(key: string, range: Range): Range | undefined {
  const [from, to] = range;
  const quarter = (to - from) / 4;
  const moved = (a: number, b: number): Range => [
    Math.max(0, Math.round(from + a * quarter)),
    Math.round(to + b * quarter),
  ];
  if (key === "ArrowLeft") return moved(-1, -1);
  if (key === "ArrowRight") return moved(1, 1);
  if (key === "+" || key === "=") return moved(1, -1);
  if (key === "-") return moved(-2, 2);
  return key === "Escape" ? undefined : range;
}

function lengthOf({ startNs, endNs }: SeriesData): string {
  const ms = (endNs[0] - startNs[0]) / 1e6;
  return `Means of ${integer(startNs.length)} intervals of ${ms >= 1000 ? `${approximate(ms / 1000)} s` : `${approximate(ms)} ms`}. Arrow keys move, with Shift they read; + and − zoom, Escape shows all.`;
}

function panelsOf({ columns, intervalNs }: SeriesData): Panel[] {
  const has = (name: string) => columns[name] !== undefined;
  const perS = (name: string) => columns[name].map((count) => count / (intervalNs / 1e9));
  const one = (title: string, name: string, colour: string, values: Values, text: Panel["text"]): Panel => ({
    title,
    bands: [{ name, colour, values }],
    height: 76,
    text,
  });
  const rate = (value: number) => (value >= 100 ? integer(value) : value.toFixed(2));
  const panels: Panel[] = [];
  if (has("arrivals")) panels.push(one("arrivals, requests/s", "arrivals", "var(--c7)", perS("arrivals"), rate));
  if (has("waiting")) panels.push(one("waiting, requests", "waiting", "var(--c1)", columns["waiting"], rate));
  if (has("running")) panels.push(one("running, requests", "running", "var(--c0)", columns["running"], rate));
  if (has("lookupTokens")) {
    const ratio = columns["lookupTokens"].map((looked, i) =>
      looked > 0 ? columns["hitTokens"][i] / looked : undefined,
    );
    panels.push({ ...one("hit ratio, tokens", "hit ratio", "var(--c2)", ratio, percent), most: 1 });
  }
  if (has("generatedTokens"))
    panels.push(one("throughput, answer tokens/s", "throughput", "var(--c3)", perS("generatedTokens"), integer));
  else if (has("computedTokens"))
    panels.push(one("tokens to compute, tokens/s", "to compute", "var(--c3)", perS("computedTokens"), integer));
  if (has("heldBlocks"))
    panels.push({
      title: "blocks: held · private · idle (cached, in no use) · free",
      bands: [
        { name: "held", colour: "var(--c0)", values: columns["heldBlocks"] },
        { name: "private", colour: "var(--c1)", values: columns["privateBlocks"] },
        { name: "idle", colour: "var(--idle)", values: columns["idleBlocks"] },
        { name: "free", colour: "var(--free)", values: columns["freeBlocks"] },
      ],
      stacked: true,
      height: 110,
      text: (value) => (value >= 100 ? integer(value) : value.toFixed(1)),
    });
  if (has("evictedBlocks")) panels.push(one("evicted, blocks/s", "evicted", "var(--c4)", perS("evictedBlocks"), rate));
  return panels;
}

type Svg = Selection<SVGSVGElement, unknown, null, undefined>;

/** Shows the values of an interval, and returns what they are. */
type ReadAt = (interval: number) => string;

function drawSeries(svg: Svg, width: number, data: SeriesData, zoom: (to: Range) => void): ReadAt {
  const panels = panelsOf(data);
  const margin = { left: 54, right: 16 };
  const tops = panels.map((_, i) => top + panels.slice(0, i).reduce((sum, { height }) => sum + height + gap, 0));
  const bottom = tops.length === 0 ? top : tops.at(-1)! + panels.at(-1)!.height;
  const x = scaleLinear(
    spanOf(data).map((ns) => ns / 1e9),
    [margin.left, width - margin.right],
  );
  const middles = data.startNs.map((start, i) => x((start + data.endNs[i]) / 2e9));
  svg.selectAll("*").remove();
  svg
    .attr("width", width)
    .attr("height", bottom + 44)
    .attr("viewBox", `0 0 ${width} ${bottom + 44}`);
  svg.attr(
    "aria-label",
    `Over time: ${panels.map((panel) => `${panel.title}, highest ${panel.text(highest(panel))}`).join("; ")}`,
  );
  panels.forEach((panel, i) => {
    drawPanel(svg, panel, { y: tops[i], width, left: margin.left, right: width - margin.right, middles });
  });
  const bottomAxis = axisBottom(x)
    .ticks(width < 560 ? 4 : 10)
    .tickSizeOuter(0);
  const axis = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${bottom})`).call(bottomAxis);
  axis
    .append("text")
    .attr("class", "title")
    .attr("x", (margin.left + width - margin.right) / 2)
    .attr("y", 36)
    .attr("text-anchor", "middle")
    .text("time, s");

  const hover = svg.append("g").attr("class", "hover").attr("data-hover", "");
  const brush = brushX<unknown>()
    .extent([
      [margin.left, top - 4],
      [width - margin.right, bottom],
    ])
    .on("end", ({ selection, sourceEvent }: D3BrushEvent<unknown>) => {
      if (!selection || !sourceEvent) return;
      const [from, to] = (selection as [number, number]).map((at) => Math.round(x.invert(at) * 1e9));
      zoom([from, to]);
    });
  svg
    .append("g")
    .attr("class", "brush")
    .attr("data-hover", "")
    .call(brush)
    .on("pointermove", (event: PointerEvent) => {
      const at = event.clientX - svg.node()!.getBoundingClientRect().left;
      hover.selectAll("*").remove();
      const i = nearest(middles, at);
      if (i !== undefined && event.buttons === 0) readAt(i);
    })
    .on("pointerleave", () => hover.selectAll("*").remove());
  hover.raise();

  function readAt(i: number): string {
    hover.selectAll("*").remove();
    hover
      .append("line")
      .attr("x1", middles[i])
      .attr("x2", middles[i])
      .attr("y1", top)
      .attr("y2", bottom)
      .attr("stroke", "var(--soft)");
    const digits = Math.max(2, Math.ceil(1 - Math.log10((data.endNs[i] - data.startNs[i]) / 1e9)));
    const time = `${(data.startNs[i] / 1e9).toFixed(digits)} to ${(data.endNs[i] / 1e9).toFixed(digits)} s`;
    const lines = [time, ...panels.flatMap((panel) => read(panel, i))];
    tip(hover, middles[i], top + 130, lines, width);
    return lines.join(", ");
  }
  return readAt;
}

const read = ({ bands, text, title }: Panel, i: number) =>
  bands.map(({ name, values }) => {
    const value = values[i];
    return `${name}: ${value === undefined ? "–" : text(value)}${bands.length > 1 ? "" : (title.split(", ")[1] ?? "").replace(/^/, " ")}`;
  });

function nearest(middles: readonly number[], at: number): number | undefined {
  let best: number | undefined;
  middles.forEach((x, i) => {
    if (best === undefined || Math.abs(x - at) < Math.abs(middles[best] - at)) best = i;
  });
  return best;
}

function highest({ bands, stacked }: Panel): number {
  const all = bands[0].values.map((value, i) =>
    stacked ? bands.reduce((sum, { values }) => sum + (values[i] ?? 0), 0) : (value ?? 0),
  );
  return Math.max(0, ...all);
}

interface Place {
  readonly y: number;
  readonly width: number;
  readonly left: number;
  readonly right: number;
  readonly middles: readonly number[];
}

function drawPanel(svg: Svg, panel: Panel, { y: at, left, right, middles }: Place): void {
  const { title, bands, stacked, most, height, text } = panel;
  const high = most ?? (highest(panel) || 1);
  const y = scaleLinear([0, high], [height, 0]);
  if (most === undefined && !stacked) y.nice(3);
  const group = svg.append("g").attr("transform", `translate(0,${at})`);
  const axis = axisLeft(y)
    .ticks(3)
    .tickSize(-(right - left))
    .tickFormat((value) => (most === 1 ? `${Number(value) * 100}%` : approximate(Number(value))));
  group
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(${left},0)`)
    .call(axis)
    .call((g) => g.select(".domain").remove());
  heading(group, panel, left, right);
  const below = middles.map(() => 0);
  for (const { name, colour, values } of bands) {
    const lower = [...below];
    if (stacked)
      values.forEach((value, i) => {
        below[i] += value ?? 0;
      });
    const upper = stacked ? [...below] : values;
    const shape = area<number>()
      .defined((i) => upper[i] !== undefined)
      .x((i) => middles[i])
      .y0((i) => y(lower[i]))
      .y1((i) => y(upper[i] ?? 0));
    const rows = middles.map((_, i) => i);
    const filled = group
      .append("path")
      .attr("d", shape(rows))
      .attr("fill", colour)
      .attr("fill-opacity", stacked ? 1 : 0.16);
    filled
      .append("title")
      .text(`${title}: ${name}, ${text(Math.max(0, ...values.map((value) => value ?? 0)))} at most`);
    if (stacked) continue;
    const edge = line<number>()
      .defined((i) => upper[i] !== undefined)
      .x((i) => middles[i])
      .y((i) => y(upper[i] ?? 0));
    group.append("path").attr("d", edge(rows)).attr("fill", "none").attr("stroke", colour).attr("stroke-width", 1.5);
  }
}

/** The title; stacked bands have their colour before their name. */
function heading(
  group: Selection<SVGGElement, unknown, null, undefined>,
  { title, bands, stacked }: Panel,
  left: number,
  _: number,
): void {
  const text = group.append("text").attr("x", left).attr("y", -8).attr("class", "names").attr("fill", "currentColor");
  if (!stacked) {
    text.text(title);
    return;
  }
  text.append("tspan").text("blocks  ");
  for (const { name, colour } of bands) {
    text.append("tspan").attr("fill", colour).text("■ ");
    text.append("tspan").attr("font-weight", 400).text(`${name}   `);
  }
}
