import { axisBottom } from "d3-axis";
import { scaleBand } from "d3-scale";
import { type Selection, select } from "d3-selection";
import type { RunRow } from "../../api.ts";
import { announce } from "../controls/dom.ts";
import type { Quantity } from "../data/axes.ts";
import type { Panel } from "../data/figures.ts";
import { bestRows, type HeatMap, heatMapOf } from "../data/heat-map.ts";
import { drawAxisTitle } from "./line-chart.ts";
import type { Chart, PanelContent } from "./panels.ts";
import { drawTooltip, type Group } from "./tooltip.ts";

interface HeatMapData {
  readonly map: HeatMap;
  readonly title: string;
  readonly x: Quantity;
  readonly y: Quantity;
  /** Values of the lightest and the darkest cell. */
  readonly extent: readonly [number, number];
}

/** A heat map for each panel, with equal colours. */
export function heatMapPanels(
  panels: readonly Panel[],
  x: Quantity,
  labelOf: (row: RunRow) => string,
): PanelContent<HeatMapData>[] {
  const maps = panels.map(({ rows, y }) => heatMapOf(rows, x, y!, labelOf));
  const values = maps.flatMap(({ cells }) => cells.flat().flatMap((cell) => cell?.value ?? []));
  const extent = [Math.min(...values), Math.max(...values)] as const;
  return panels.map(({ title, y }, i) => ({
    ...{ title, kind: "heat map", create: (host: HTMLElement) => new HeatMapChart(host) },
    data: { map: maps[i], title: `${y!.label} by ${x.label}`, x, y: y!, extent },
  }));
}

const rowHeight = 34;
/** Share of the colour in the darkest cell, in which text is still readable. */
const most = 0.58;

/** Cells with their values; the arrow keys read them. */
class HeatMapChart implements Chart<HeatMapData> {
  readonly #host: HTMLElement;
  readonly #svg: Selection<SVGSVGElement, unknown, null, undefined>;
  readonly #cells: Group;
  readonly #axis: Group;
  readonly #names: Group;
  readonly #hover: Group;
  #data: HeatMapData | undefined;
  #selected = { row: 0, column: -1 };
  #place = { left: 0, top: 0, cell: 1 };

  constructor(host: HTMLElement) {
    this.#host = host;
    this.#svg = select(host).append("svg").attr("class", "chart").attr("role", "img").attr("tabindex", 0);
    this.#cells = this.#svg.append("g").attr("font-size", 12.5);
    this.#axis = this.#svg.append("g").attr("class", "axis");
    this.#names = this.#svg.append("g").attr("class", "names");
    this.#hover = this.#svg.append("g").attr("data-hover", "").attr("class", "hover");
    this.#svg
      .on("pointermove", (event: PointerEvent) => this.#point(event))
      .on("pointerleave blur", () => this.#hover.selectAll("*").remove())
      .on("keydown", (event: KeyboardEvent) => this.#key(event));
  }

  update(data: HeatMapData): void {
    this.#data = data;
    this.#selected = { row: 0, column: -1 };
    this.draw();
  }

  draw(): void {
    const width = this.#host.clientWidth;
    if (!this.#data || width === 0) return;
    const { map, title, x, y, extent } = this.#data;
    const longest = Math.max(4, ...map.rows.map((name) => name.length));
    const left = Math.min(width * 0.34, 14 + longest * 8);
    const top = 6;
    const cell = (width - left - 8) / Math.max(1, map.columns.length);
    const bottom = top + map.rows.length * rowHeight;
    this.#place = { left, top, cell };
    this.#svg
      .attr("width", width)
      .attr("height", bottom + 46)
      .attr("viewBox", `0 0 ${width} ${bottom + 46}`)
      .attr("aria-label", `Heat map, ${title}. ${textOf(this.#data)}. Arrow keys read the cells.`);
    this.#hover.selectAll("*").remove();
    const best = bestRows(map, y);
    const cells = map.cells.flatMap((row, r) => row.map((each, c) => ({ r, c, each, isBest: best[c].includes(r) })));
    const groups = this.#cells
      .selectAll<SVGGElement, (typeof cells)[number]>("g")
      .data(cells)
      .join((enter) => {
        const group = enter.append("g");
        group.append("rect");
        group.append("text");
        return group;
      })
      .attr("transform", ({ r, c }) => `translate(${left + c * cell},${top + r * rowHeight})`);
    groups
      .select("rect")
      .attr("width", Math.max(1, cell - 2))
      .attr("height", rowHeight - 2)
      .attr("rx", 3)
      .attr("fill", ({ each }) => (each ? colourOf(each.value, extent) : "none"))
      .attr("stroke", ({ each }) => (each ? "none" : "var(--rule)"))
      .attr("stroke-dasharray", "3 3");
    groups
      .select("text")
      .attr("x", (cell - 2) / 2)
      .attr("y", rowHeight / 2 + 3)
      .attr("text-anchor", "middle")
      .attr("fill", "currentColor")
      .attr("font-weight", ({ isBest }) => (isBest ? 700 : 400))
      .text(({ each }) => (each ? shortened(y, each.value, cell) : ""));
    this.#drawAxes(map, x, cell, bottom, width);
  }

  #drawAxes({ rows, columns }: HeatMap, x: Quantity, cell: number, bottom: number, width: number): void {
    const { left, top } = this.#place;
    const across = scaleBand<number>([...columns], [left, left + columns.length * cell]);
    const every = Math.ceil(52 / cell);
    const axis = axisBottom<number>(across)
      .tickSize(0)
      .tickPadding(7)
      .tickFormat((value) => x.tick(value))
      .tickValues(columns.filter((_, i) => i % every === 0));
    this.#axis
      .attr("transform", `translate(0,${bottom})`)
      .call(axis)
      .call((g) => g.select(".domain").remove());
    drawAxisTitle(this.#axis, x.label, (left + width) / 2, 38, "middle");
    const maxLength = Math.floor((left - 10) / 7);
    this.#names
      .selectAll<SVGTextElement, string>("text")
      .data([...rows])
      .join("text")
      .attr("x", left - 8)
      .attr("y", (_, r) => top + r * rowHeight + rowHeight / 2 + 3)
      .attr("text-anchor", "end")
      .attr("fill", "currentColor")
      .text((name) => (name.length > maxLength ? `${name.slice(0, maxLength - 1)}…` : name))
      .append("title")
      .text((name) => name);
  }

  #point(event: PointerEvent): void {
    const box = this.#svg.node()!.getBoundingClientRect();
    const { left, top, cell } = this.#place;
    const [row, column] = [
      Math.floor((event.clientY - box.top - top) / rowHeight),
      Math.floor((event.clientX - box.left - left) / cell),
    ];
    this.#hover.selectAll("*").remove();
    if (this.#data?.map.cells[row]?.[column] === undefined) return;
    this.#selected = { row, column };
    this.#showTooltip();
  }

  #key(event: KeyboardEvent): void {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || !this.#data) return;
    event.preventDefault();
    const { rows, columns } = this.#data.map;
    const within = (at: number, count: number) => Math.max(0, Math.min(count - 1, at));
    const { row, column } = this.#selected;
    this.#selected =
      column < 0
        ? { row: 0, column: 0 }
        : { row: within(row + step[0], rows.length), column: within(column + step[1], columns.length) };
    announce(this.#showTooltip());
  }

  /** Shows the tooltip of the selected cell and returns its text. */
  #showTooltip(): string {
    const { map, x } = this.#data!;
    const { row, column } = this.#selected;
    const { left, top, cell } = this.#place;
    const [at, y] = [left + column * cell, top + row * rowHeight];
    this.#hover.selectAll("*").remove();
    this.#hover
      .append("rect")
      .attr("x", at)
      .attr("y", y)
      .attr("width", Math.max(1, cell - 2))
      .attr("height", rowHeight - 2)
      .attr("rx", 3)
      .attr("fill", "none")
      .attr("stroke", "currentColor")
      .attr("stroke-width", 2);
    const name = map.rows[row] ?? "";
    const text = [
      `${x.label}: ${x.text(map.columns[column])}`,
      ...(map.cells[row][column]?.text ?? "not run").split("\n"),
    ];
    drawTooltip(this.#hover, at + cell / 2, y + rowHeight / 2, [name, ...text], this.#host.clientWidth);
    return `${name}: ${text.join(", ")}`;
  }
}

function colourOf(value: number, [low, high]: readonly [number, number]): string {
  const share = high > low ? (value - low) / (high - low) : 0.5;
  return `color-mix(in oklab, var(--c0) ${(4 + share * (most * 100 - 4)).toFixed(1)}%, var(--card))`;
}

/** The value as it fits into a cell. */
function shortened({ text, tick }: Quantity, value: number, cell: number): string {
  return [text(value), tick(value)].find((each) => each.length * 7.2 < cell - 4) ?? tick(value).replace(/[ %].*$/, "");
}

const textOf = ({ map: { rows, columns, cells }, x, y }: HeatMapData) =>
  rows
    .map((name, r) => {
      const values = columns.map(
        (column, c) => `${x.tick(column)} ${cells[r][c] ? y.text(cells[r][c].value) : "not run"}`,
      );
      return `${name}: ${values.join(", ")}`;
    })
    .join("; ");
