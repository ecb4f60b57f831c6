import type { RequestsData, RunRow } from "../../api.ts";
import { segments } from "../controls/dom.ts";
import { type Comparison, emptyComparison, nameOf, styleOf } from "../data/comparison.ts";
import { latencies, milliseconds, tickMs } from "../data/format.ts";
import { getRequests } from "../data/server.ts";
import { updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { barsFigure } from "./bars.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart } from "./line-chart.ts";

const short: Readonly<Record<string, string>> = {
  ttftMs: "TTFT",
  tpotMs: "TPOT",
  e2eMs: "End-to-end",
  queueMs: "Queueing",
};

/** More curves than this cannot be distinguished. */
const maxCurves = 12;

/** The list of runs has the medians of this latency. */
const sortedBy = "ttftMs";
const medianOf = ({ ttftMsP50 }: RunRow) => ttftMsP50 ?? Number.POSITIVE_INFINITY;

/** All quantiles of a latency, a line per run. */
export function latencyFigure({ params, signal }: ViewContext): ComparisonFigure {
  const { element, body, tools, note } = figure("Latencies");
  let metric = params.get("latency") ?? "ttftMs";
  let shown = emptyComparison;
  const responses = new Map<string, Promise<RequestsData>>();
  /** Fetched once per version of a run. */
  const requestsOf = ({ id, savedAtMs }: RunRow) => {
    const key = `${id} ${savedAtMs}`;
    const known = responses.get(key) ?? getRequests(id, signal);
    responses.set(key, known);
    known.catch(() => responses.delete(key));
    return known;
  };
  const options = (name: string) => ({
    title: `Quantiles of the ${latencies[name]}`,
    x: {
      label: "share of requests",
      format: (value: number) => `${Math.round(value * 100)}%`,
      max: 1,
      fromZero: true,
      ticks: [0, 0.25, 0.5, 0.75, 1],
    },
    y: { label: `${latencies[name]} (logarithmic)`, log: true, format: tickMs },
    marks: false,
  });
  const chart = new LineChart(body, options(metric));
  const draw = async () => {
    const comparison = shown;
    const drawn = [...comparison.rows].sort((a, b) => medianOf(a) - medianOf(b)).slice(0, maxCurves);
    const all = await Promise.allSettled(drawn.map(requestsOf));
    if (shown !== comparison || signal.aborted) return;
    const lines = drawn.flatMap((row, i) => {
      const result = all[i];
      if (result.status === "rejected") return [];
      const points = (result.value.quantiles[metric] ?? []).map((ms, percent) => ({
        x: percent / 100,
        y: Math.max(ms, 0.01),
        text: `p${percent}: ${milliseconds(ms)}`,
      }));
      return points.length > 0 ? [{ label: nameOf(comparison, row.id), style: styleOf(comparison, row), points }] : [];
    });
    const failed = all.flatMap((result) => (result.status === "rejected" ? [(result.reason as Error).message] : []));
    const none = lines.length === 0 ? `None of these runs has the ${latencies[metric]}.` : "";
    const left = comparison.rows.length - drawn.length;
    const limit = `The ${maxCurves} runs with the lowest median ${latencies[sortedBy]} are drawn; ${left} are not.`;
    note([...new Set(failed)].join("; ") || none || (left > 0 ? limit : ""));
    chart.update(lines, options(metric));
  };
  const setMetric = (value: string) => {
    metric = value;
    updateRoute({ latency: value });
    void draw();
  };
  const choices = Object.keys(short).map((value) => ({ value, label: short[value] }));
  tools.append(segments("Latency", choices, metric, setMetric));
  onWidth(body, signal, () => chart.draw());
  const show = (comparison: Comparison) => {
    shown = comparison;
    void draw();
  };
  return { element, show };
}

/** Requests per second of each run. */
export const throughputFigure = (signal: AbortSignal): ComparisonFigure =>
  barsFigure(
    "Throughput",
    "throughput, req/s",
    ({ requestsPerS }) => requestsPerS,
    signal,
    (value) => value.toFixed(2),
  );
