import * as Plot from "@observablehq/plot";
import type { RequestsData } from "../../api.ts";
import { approximate, integer, latencies, milliseconds } from "../data/format.ts";
import { getRequests } from "../data/server.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot } from "./plot.ts";

/** Cached tokens against prompt tokens, a point per request. */
export function requestHitsFigure(id: string, signal: AbortSignal): HTMLElement {
  const { element, body, note } = figure("Cached tokens per request");
  let data: RequestsData | undefined;
  const draw = (width: number) => data && scatter(body, width, data);
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

function scatter(body: HTMLElement, width: number, { columns }: RequestsData): void {
  const points = (columns["inputTokens"] ?? []).map((input, i) => ({
    input: input ?? 0,
    hits: columns["hitTokens"]?.[i] ?? 0,
    title: titleOf(columns, i),
  }));
  const axis = { grid: true, zero: true, ticks: 5, tickFormat: (value: number) => approximate(value) };
  drawPlot(body, {
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
  });
}

function titleOf(columns: RequestsData["columns"], i: number): string {
  const times = Object.keys(latencies).flatMap((name) => {
    const ms = columns[name]?.[i];
    return typeof ms === "number" ? [`${latencies[name]} ${milliseconds(ms)}`] : [];
  });
  const [request, input, hits] = ["request", "inputTokens", "hitTokens"].map((name) => columns[name]?.[i] ?? 0);
  return [`request #${request}`, `${integer(hits)} of ${integer(input)} tokens cached`, ...times].join("\n");
}
