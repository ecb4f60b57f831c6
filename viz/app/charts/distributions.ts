import type { RequestsData } from "../../api.ts";
import { latencies, milliseconds, tickMs } from "../data/format.ts";
import type { Line } from "../data/lines.ts";
import { getRequests } from "../data/server.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart } from "./line-chart.ts";

/** The distribution functions of all latencies of a run. */
export function distributionsFigure(id: string, signal: AbortSignal): HTMLElement {
  const { element, body, note } = figure("Latency distributions");
  const chart = new LineChart(body, {
    title: "Share of requests by latency",
    x: { label: "latency (logarithmic)", log: true, format: tickMs },
    y: {
      label: "share of requests with at most this latency",
      fromZero: true,
      max: 1,
      format: (share) => `${Math.round(share * 100)}%`,
    },
    marks: false,
    height: 330,
  });
  onWidth(body, signal, () => chart.draw());
  getRequests(id, signal)
    .then((data) => {
      const lines = linesOf(data);
      if (lines.length === 0) note("No request has ended.");
      else if (Object.values(data.quantiles).some(([least]) => least < shortest(data)))
        note(`Shorter times than ${milliseconds(shortest(data))} are drawn at the left end.`);
      chart.update(lines);
    })
    .catch((error) => !signal.aborted && note(error.message));
  return element;
}

/** The left end of the logarithmic axis: the lowest second percentile above 0. */
function shortest({ quantiles }: RequestsData): number {
  const low = Object.values(quantiles).map(
    (values) => values.slice(2).find((ms) => ms > 0) ?? Number.POSITIVE_INFINITY,
  );
  return Math.max(0.001, Math.min(...low));
}

/** Quantiles of all requests, in steps of 1 %. */
const linesOf = (data: RequestsData): Line[] =>
  Object.entries(latencies).flatMap(([name, label], i) => {
    const values = data.quantiles[name] ?? [];
    const points = values.map((ms, percent) => ({
      ...{ x: Math.max(shortest(data), ms), y: percent / 100 },
      text: `p${percent}: ${milliseconds(ms)}`,
    }));
    return points.length > 0 ? [{ label, style: { colour: `var(--c${i})`, variant: i }, points }] : [];
  });
