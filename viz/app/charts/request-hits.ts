import * as Plot from "@observablehq/plot";
import type { RequestsData } from "../../api.ts";
import { requestField } from "../controls/request-field.ts";
import { approximate, integer, latencies, milliseconds } from "../data/format.ts";
import { getRequests } from "../data/server.ts";
import { linkTo } from "../route.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot, type PlotWithLabel } from "./plot.ts";

/** Cached tokens against prompt tokens, a point per request; a click on one opens its history. */
export function requestHitsFigure(id: string, signal: AbortSignal): HTMLElement {
  const { element, body, tools, note } = figure("Cached tokens per request");
  let data: RequestsData | undefined;
  const open = (request: number) => {
    location.hash = linkTo("request", { id, request });
  };
  tools.append(requestField(open));
  const draw = (width: number) => data && scatter(body, width, data, open);
  onWidth(body, signal, draw);
  getRequests(id, signal)
    .then((response) => {
      data = response;
      const count = response.columns["request"]?.length ?? 0;
      if (count < response.total)
        note(`${integer(count)} of ${integer(response.total)} requests, sampled at equal intervals.`);
      draw(body.clientWidth);
    })
    .catch((error) => !signal.aborted && note(error.message));
  return element;
}

function scatter(body: HTMLElement, width: number, { columns }: RequestsData, open: (request: number) => void): void {
  const points = (columns["inputTokens"] ?? []).map((input, i) => ({
    request: columns["request"]?.[i] ?? 0,
    input: input ?? 0,
    hits: columns["hitTokens"]?.[i] ?? 0,
    title: titleOf(columns, i),
  }));
  const axis = { grid: true, zero: true, ticks: 5, tickFormat: (value: number) => approximate(value) };
  const options: PlotWithLabel = {
    width,
    height: 300,
    marginLeft: 56,
    marginBottom: 42,
    x: { label: "prompt tokens", ...axis },
    y: { label: "cached tokens", ...axis },
    ariaLabel: `Cached tokens by prompt tokens of ${points.length} requests`,
    marks: [
      Plot.dot(points, { x: "input", y: "hits", r: 2.4, fill: "var(--c0)", fillOpacity: 0.4 }),
      Plot.tip(points, Plot.pointer({ x: "input", y: "hits", title: "title" })),
    ],
  };
  drawPlot<(typeof points)[number]>(body, options, ({ request }) => open(request));
}

function titleOf(columns: RequestsData["columns"], i: number): string {
  const times = Object.keys(latencies).flatMap((name) => {
    const ms = columns[name]?.[i];
    return typeof ms === "number" ? [`${latencies[name]} ${milliseconds(ms)}`] : [];
  });
  const [request, input, hits] = ["request", "inputTokens", "hitTokens"].map((name) => columns[name]?.[i] ?? 0);
  return [`request #${request}`, `${integer(hits)} of ${integer(input)} tokens cached`, ...times].join("\n");
}
