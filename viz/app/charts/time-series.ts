import { axisBottom, axisLeft } from "d3-axis";
import { brushX, type D3BrushEvent } from "d3-brush";
import { scaleLinear } from "d3-scale";
import { type Selection, select } from "d3-selection";
import { area, line } from "d3-shape";
import type { SeriesData } from "../../api.ts";
import { announce, h } from "../controls/dom.ts";
import { approximate, blockStatesNote, integer, milliseconds, percent, roundPercent, tickMs } from "../data/format.ts";
import { pushRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { legendName } from "./block-colours.ts";
import { figure, onWidth } from "./figure.ts";
import { drawTooltip } from "./tooltip.ts";

/** A value per interval; undefined: none. */
type Values = readonly (number | undefined)[];

interface Band {
  readonly name: string;
  readonly colour: string;
  readonly values: Values;
  /** Default: a line above a tinted area. */
  readonly drawnAs?: "points" | "line" | "dashes" | "steps" | "dashed steps";
}

/** One chart of the stack of charts that share the time axis. */
interface Panel {
  readonly title: string;
  readonly bands: readonly Band[];
  /** Whether the bands are stacked areas. */
  readonly stacked?: boolean;
  /** End of the axis; otherwise the largest value. */
  readonly max?: number;
  readonly height: number;
  text(value: number): string;
  /** For axis ticks. */
  tick?(value: number): string;
}

const gap = 40;
const top = 24;

/** Fetches the series: at most `bins` intervals within the range. */
type Source = (bins: number, range: Range | undefined, signal: AbortSignal) => Promise<SeriesData>;

export interface SeriesFigure {
  readonly element: HTMLElement;
  /** Fetches and draws the series again, unless the pointer or the keyboard is reading it. */
  refresh(): Promise<void>;
}

/** Time series on a common axis. Dragging zooms in and fetches finer intervals. */
export function timeSeriesFigure({ params, signal }: ViewContext, source: Source): SeriesFigure {
  const { element, body, tools, note } = figure("Time series");
  let range = rangeOf(params);
  let data: SeriesData | undefined;
  let fetching = new AbortController();
  const svg = select(body)
    .append("svg")
    .attr("class", "chart series")
    .attr("role", "img")
    .attr("tabindex", 0)
    .attr("aria-label", "Time series");
  const whole = h("button", { type: "button", hidden: !range, click: () => zoom(undefined) }, "Whole run");
  tools.append(h("span", { class: "hint" }, "Drag to zoom"), whole);
  let selected: number | undefined;
  let showInterval: ShowInterval = () => "";
  const draw = () => {
    if (data) showInterval = drawSeries(svg, body.clientWidth, data, (to) => zoom(to));
  };
  const load = async () => {
    fetching.abort();
    fetching = new AbortController();
    try {
      data = await source(binsFor(body.clientWidth), range, AbortSignal.any([signal, fetching.signal]));
      selected = undefined;
      note(data.startNs.length === 0 ? "No data in this range." : noteOf(data));
      draw();
    } catch (error) {
      if ((error as Error).name !== "AbortError") note((error as Error).message);
    }
  };
  const zoom = (to: Range | undefined) => {
    range = to;
    whole.hidden = !to;
    pushRoute({ from: to?.[0], to: to?.[1] });
    void load();
  };
  svg.on("blur", () => svg.selectAll(".hover *").remove());
  svg.on("keydown", (event: KeyboardEvent) => {
    const step = event.shiftKey ? ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0) : 0;
    if (data && step !== 0) {
      event.preventDefault();
      const last = data.startNs.length - 1;
      selected = Math.max(0, Math.min(last, (selected ?? (step > 0 ? -1 : last + 1)) + step));
      announce(showInterval(selected));
      return;
    }
    const current = range ?? (data && rangeOfData(data));
    const next = current && movedRange(event.key, current);
    if (!current || next === current) return;
    event.preventDefault();
    zoom(next);
    announce(next ? `From ${seconds(next[0])} to ${seconds(next[1])}` : "Whole run");
  });
  onWidth(body, signal, () => (data ? draw() : void load()));
  const refresh = async () => {
    const isInUse = body.matches(":hover") || svg.node()!.matches(":focus-visible");
    if (body.clientWidth > 0 && !isInUse) await load();
  };
  return { element, refresh };
}

type Range = readonly [fromNs: number, toNs: number];

function rangeOf(params: URLSearchParams): Range | undefined {
  const [from, to] = [Number(params.get("from") ?? Number.NaN), Number(params.get("to") ?? Number.NaN)];
  return to > from ? [from, to] : undefined;
}

const binsFor = (width: number) => Math.max(60, Math.min(600, Math.round(width / 4)));
const rangeOfData = ({ startNs, endNs }: SeriesData): Range => [startNs[0] ?? 0, endNs.at(-1) ?? 1];
const seconds = (ns: number) => `${approximate(ns / 1e9)} s`;

/** The range after a key: arrow keys move it by a quarter, + and − zoom, Escape resets it (undefined). */
function movedRange(key: string, range: Range): Range | undefined {
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

function noteOf({ startNs, endNs, columns }: SeriesData): string {
  const ms = (endNs[0] - startNs[0]) / 1e6;
  return `Means of ${integer(startNs.length)} intervals of ${ms >= 1000 ? `${approximate(ms / 1000)} s` : `${approximate(ms)} ms`}. Arrow keys move the range, with Shift they read values; + and − zoom, Escape shows the whole run.${columns["heldBlocks"] ? ` ${blockStatesNote}` : ""}`;
}

function panelsOf(data: SeriesData): Panel[] {
  const { columns, intervalNs, startNs, endNs } = data;
  const has = (name: string) => columns[name] !== undefined;
  const perS = (name: string) => columns[name].map((count) => count / (intervalNs / 1e9));
  /** Counts of whole intervals: the columns are means over the intervals that were merged. */
  const totals = (name: string) => columns[name].map((mean, i) => mean * ((endNs[i] - startNs[i]) / intervalNs));
  const single = (title: string, name: string, colour: string, values: Values, text: Panel["text"]): Panel => ({
    title,
    bands: [{ name, colour, values }],
    height: 76,
    text,
  });
  const rate = (value: number) => (value >= 100 ? integer(value) : value.toFixed(2));
  const panels: Panel[] = [];
  if (has("arrivals")) panels.push(single("arrivals, req/s", "arrivals", "var(--c7)", perS("arrivals"), rate));
  if (has("waiting")) panels.push(single("waiting, requests", "waiting", "var(--c1)", columns["waiting"], rate));
  if (has("running")) panels.push(single("running, requests", "running", "var(--c0)", columns["running"], rate));
  if (has("lookupTokens")) {
    panels.push(hitRatioPanel(totals("hitTokens"), totals("lookupTokens")));
  }
  if (has("generatedTokens"))
    panels.push(single("throughput, output tokens/s", "throughput", "var(--c3)", perS("generatedTokens"), integer));
  else if (has("computedTokens"))
    panels.push(single("prefill, tokens/s", "prefill", "var(--c3)", perS("computedTokens"), integer));
  panels.push(...latencyPanels(data));
  if (has("busy")) panels.push(single("busy, replicas", "busy", "var(--c5)", columns["busy"], rate));
  if (columns["refused"]?.some((count) => count > 0))
    panels.push(single("refused, req/s", "refused", "var(--c4)", perS("refused"), rate));
  if (has("heldBlocks"))
    panels.push({
      title: "blocks: cached, referenced · private · cached, idle · free",
      bands: [
        { name: "cached, referenced", colour: "var(--c0)", values: columns["heldBlocks"] },
        { name: "private", colour: "var(--c1)", values: columns["privateBlocks"] },
        { name: "cached, idle", colour: "var(--idle)", values: columns["idleBlocks"] },
        { name: "free", colour: "var(--free)", values: columns["freeBlocks"] },
      ],
      stacked: true,
      height: 110,
      text: (value) => (value >= 100 ? integer(value) : value.toFixed(1)),
    });
  if (has("evictedBlocks"))
    panels.push(single("evicted, blocks/s", "evicted", "var(--c4)", perS("evictedBlocks"), rate));
  return panels;
}

/** p50 and p99 of each latency; an interval without a request has none. */
function latencyPanels({ startNs, latency }: SeriesData): Panel[] {
  if (!latency) return [];
  const each = Math.ceil(startNs.length / latency.startNs.length);
  const band = (name: string, colour: string, values: readonly (number | null)[], drawnAs: Band["drawnAs"]): Band => ({
    ...{ name, colour, drawnAs: drawnAs! },
    values: startNs.map((_, i) => values[Math.floor(i / each)] ?? undefined),
  });
  return Object.entries(latency.columns)
    .filter(([, { p50 }]) => p50.some((value) => value !== null))
    .map(([name, { p50, p99 }]) => {
      const title = latencyTitles[name] ?? name;
      const bands = [
        band(`${title} p50`, "var(--c0)", p50, "steps"),
        band(`${title} p99`, "var(--c1)", p99, "dashed steps"),
      ];
      return { title, bands, height: 96, text: milliseconds, tick: tickMs };
    });
}

const latencyTitles: Readonly<Record<string, string>> = { ttftMs: "TTFT", tpotMs: "TPOT", queueMs: "queueing time" };

/** Share of the range over which the moving hit ratio is computed. */
const movingShare = 0.05;

/** The hit ratio of each interval with requests, over the last 5 % of the range, and since the beginning of the range. */
function hitRatioPanel(hits: readonly number[], lookups: readonly number[]): Panel {
  const [hitsBefore, lookupsBefore] = [sumsBefore(hits), sumsBefore(lookups)];
  const window = Math.max(2, Math.round(movingShare * hits.length));
  const between = (from: number, to: number) => {
    const looked = lookupsBefore[to] - lookupsBefore[from];
    return looked > 0 ? (hitsBefore[to] - hitsBefore[from]) / looked : undefined;
  };
  return {
    title: "hit ratio, tokens",
    bands: [
      { name: "interval", colour: "var(--c2)", values: hits.map((_, i) => between(i, i + 1)), drawnAs: "points" },
      {
        ...{ name: "moving, last 5 %", colour: "var(--c0)", drawnAs: "line" },
        values: hits.map((_, i) => between(Math.max(0, i + 1 - window), i + 1)),
      },
      { name: "cumulative", colour: "var(--soft)", values: hits.map((_, i) => between(0, i + 1)), drawnAs: "dashes" },
    ],
    ...{ max: 1, height: 96, text: percent },
  };
}

/** Element i: the sum of the first i values. */
function sumsBefore(values: readonly number[]): number[] {
  const sums = [0];
  for (const value of values) sums.push(sums.at(-1)! + value);
  return sums;
}

type Svg = Selection<SVGSVGElement, unknown, null, undefined>;

/** Shows the values of an interval in a tooltip and returns its text. */
type ShowInterval = (interval: number) => string;

function drawSeries(svg: Svg, width: number, data: SeriesData, zoom: (to: Range) => void): ShowInterval {
  const panels = panelsOf(data);
  const margin = { left: 54, right: 16 };
  const tops = panels.map((_, i) => top + panels.slice(0, i).reduce((sum, { height }) => sum + height + gap, 0));
  const bottom = tops.length === 0 ? top : tops.at(-1)! + panels.at(-1)!.height;
  const x = scaleLinear(
    rangeOfData(data).map((ns) => ns / 1e9),
    [margin.left, width - margin.right],
  );
  const middles = data.startNs.map((start, i) => x((start + data.endNs[i]) / 2e9));
  const edges = data.startNs.map((start, i) => [x(start / 1e9), x(data.endNs[i] / 1e9)] as const);
  svg.selectAll("*").remove();
  svg
    .attr("width", width)
    .attr("height", bottom + 44)
    .attr("viewBox", `0 0 ${width} ${bottom + 44}`);
  svg.attr(
    "aria-label",
    `Time series: ${panels.map((panel) => `${panel.title}, maximum ${panel.text(maximumOf(panel))}`).join("; ")}`,
  );
  panels.forEach((panel, i) => {
    drawPanel(svg, panel, { y: tops[i], width, left: margin.left, right: width - margin.right, middles, edges });
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
      if (i !== undefined && event.buttons === 0) showTooltip(i);
    })
    .on("pointerleave", () => hover.selectAll("*").remove());
  hover.raise();

  function showTooltip(i: number): string {
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
    const lines = [time, ...panels.flatMap((panel) => valuesAt(panel, i))];
    drawTooltip(hover, middles[i], top + 130, lines, width);
    return lines.join(", ");
  }
  return showTooltip;
}

const valuesAt = ({ bands, text, title }: Panel, i: number) =>
  bands.map(({ name, values }) => {
    const value = values[i];
    return `${name}: ${value === undefined ? "–" : text(value)}${bands.length > 1 ? "" : (title.split(", ")[1] ?? "").replace(/^/, " ")}`;
  });

function nearest(middles: readonly number[], at: number): number | undefined {
  let closest: number | undefined;
  middles.forEach((x, i) => {
    if (closest === undefined || Math.abs(x - at) < Math.abs(middles[closest] - at)) closest = i;
  });
  return closest;
}

function maximumOf({ bands, stacked }: Panel): number {
  const all = bands[0].values.map((_, i) => bands.map(({ values }) => values[i] ?? 0));
  const ofInterval = (values: readonly number[]) =>
    stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  return Math.max(0, ...all.map(ofInterval));
}

interface PanelBox {
  readonly y: number;
  readonly width: number;
  readonly left: number;
  readonly right: number;
  readonly middles: readonly number[];
  /** Ends of the intervals. */
  readonly edges: readonly (readonly [from: number, to: number])[];
}

function drawPanel(svg: Svg, panel: Panel, { y: panelY, left, right, middles, edges }: PanelBox): void {
  const { title, bands, stacked, max, height, text, tick } = panel;
  const high = max ?? (maximumOf(panel) || 1);
  const y = scaleLinear([0, high], [height, 0]);
  if (max === undefined && !stacked) y.nice(3);
  const group = svg.append("g").attr("transform", `translate(0,${panelY})`);
  const axis = axisLeft(y)
    .ticks(3)
    .tickSize(-(right - left))
    .tickFormat(
      (value) => tick?.(Number(value)) ?? (max === 1 ? roundPercent(Number(value)) : approximate(Number(value))),
    );
  group
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(${left},0)`)
    .call(axis)
    .call((g) => g.select(".domain").remove());
  drawHeading(group, panel, left, right);
  const below = middles.map(() => 0);
  for (const { name, colour, values, drawnAs } of bands) {
    if (drawnAs !== undefined) {
      drawBand(group, { name, colour, values, drawnAs }, middles, edges, y);
      continue;
    }
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
      .text(`${title}: ${name}, maximum ${text(Math.max(0, ...values.map((value) => value ?? 0)))}`);
    if (stacked) continue;
    const edge = line<number>()
      .defined((i) => upper[i] !== undefined)
      .x((i) => middles[i])
      .y((i) => y(upper[i] ?? 0));
    group.append("path").attr("d", edge(rows)).attr("fill", "none").attr("stroke", colour).attr("stroke-width", 1.5);
  }
}

/** A band without an area below it. */
function drawBand(
  group: Selection<SVGGElement, unknown, null, undefined>,
  { name, colour, values, drawnAs }: Band,
  middles: readonly number[],
  edges: PanelBox["edges"],
  y: (value: number) => number,
): void {
  const rows = middles.flatMap((_, i) => (values[i] === undefined ? [] : [i]));
  const at = (i: number) => [middles[i], y(values[i]!)] as const;
  if (drawnAs === "points") {
    group
      .append("path")
      .attr("class", "points")
      .attr("d", rows.map((i) => `M${at(i)}h0`).join(""))
      .attr("stroke", colour)
      .attr("stroke-width", 3.5)
      .attr("stroke-linecap", "round")
      .append("title")
      .text(`${name}: ${rows.length} points`);
    return;
  }
  const edge = line<number>()
    .x((i) => at(i)[0])
    .y((i) => at(i)[1]);
  const isStepped = drawnAs === "steps" || drawnAs === "dashed steps";
  group
    .append("path")
    .attr("d", isStepped ? stepsOf(values, edges, y) : edge(rows))
    .attr("fill", "none")
    .attr("stroke", colour)
    .attr("stroke-width", 1.75)
    .attr("stroke-dasharray", drawnAs === "dashes" ? "5 4" : drawnAs === "dashed steps" ? "3 2" : null)
    .append("title")
    .text(name);
}

/** A horizontal line for each interval with a value, joined to that of the interval before. */
function stepsOf(values: Values, edges: PanelBox["edges"], y: (value: number) => number): string {
  return values
    .map((value, i) => {
      if (value === undefined) return "";
      const [from, to] = edges[i];
      return `${values[i - 1] === undefined ? `M${from},${y(value)}` : `V${y(value)}`}H${to}`;
    })
    .join("");
}

/** The title of a panel, with a legend if it has several bands. */
function drawHeading(
  group: Selection<SVGGElement, unknown, null, undefined>,
  { title, bands }: Panel,
  left: number,
  right: number,
): void {
  const text = group.append("text").attr("x", left).attr("y", -8).attr("class", "names").attr("fill", "currentColor");
  if (bands.length === 1) {
    text.text(title);
    return;
  }
  const width = right - left;
  if (width >= 560) text.append("tspan").text(`${title.split(": ")[0]}  `);
  for (const { name, colour } of bands) {
    text.append("tspan").attr("fill", colour).text("■ ");
    text
      .append("tspan")
      .attr("font-weight", 400)
      .text(`${legendName(name, width)}   `);
  }
}
