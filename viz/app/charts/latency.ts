import type { RequestsData, RunRow } from "../../api.ts";
import { type Compared, type ComparedFigure, colourOf, nameOf } from "../compared.ts";
import { segments } from "../controls/dom.ts";
import { latencies, milliseconds, tickMs } from "../controls/format.ts";
import type { Page } from "../page.ts";
import { remember } from "../route.ts";
import { getRequests } from "../server.ts";
import { barsFigure } from "./bars.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart } from "./lines.ts";

const short: Readonly<Record<string, string>> = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "Latency", queueMs: "Queue" };

/** All quantiles of a latency, a line for each run: how slow the slowest are, not only the middle. */
export function latencyFigure({ params, left }: Page): ComparedFigure {
  const { element, body, tools, note } = figure("Latencies");
  let metric = params.get("latency") ?? "ttftMs";
  let shown: Compared = { rows: [], bounds: [], isUnchecked: false, labels: new Map(), colours: new Map() };
  const answers = new Map<string, Promise<RequestsData>>();
  /** Asked for once, and again when another run has taken its place. */
  const requestsOf = ({ id, savedAtMs }: RunRow) => {
    const key = `${id} ${savedAtMs}`;
    const known = answers.get(key) ?? getRequests(id, left);
    answers.set(key, known);
    known.catch(() => answers.delete(key));
    return known;
  };
  const options = (name: string) => ({
    title: `Quantiles of the ${latencies[name]}`,
    x: {
      label: "share of requests that are faster",
      format: (value: number) => `${Math.round(value * 100)}%`,
      most: 1,
      fromZero: true,
      ticks: [0, 0.25, 0.5, 0.75, 1],
    },
    y: { label: `${latencies[name]} (logarithmic)`, log: true, format: tickMs },
    marks: false,
  });
  const chart = new LineChart(body, options(metric));
  const draw = async () => {
    const compared = shown;
    const all = await Promise.allSettled(compared.rows.map(requestsOf));
    if (shown !== compared || left.aborted) return;
    const lines = compared.rows.flatMap((row, i) => {
      const answer = all[i];
      if (answer.status === "rejected") return [];
      const points = (answer.value.quantiles[metric] ?? []).map((ms, percent) => ({
        x: percent / 100,
        y: Math.max(ms, 0.01),
        text: `${percent}% of requests: at most ${milliseconds(ms)}`,
      }));
      return points.length > 0 ? [{ label: nameOf(compared, row.id), colour: colourOf(compared, row), points }] : [];
    });
    const failed = all.flatMap((answer) => (answer.status === "rejected" ? [(answer.reason as Error).message] : []));
    note(
      [...new Set(failed)].join("; ") || (lines.length === 0 ? `None of these runs has a ${latencies[metric]}.` : ""),
    );
    chart.update(lines, options(metric));
  };
  const choose = (value: string) => {
    metric = value;
    remember({ latency: value });
    void draw();
  };
  const choices = Object.keys(short).map((value) => ({ value, label: short[value] }));
  tools.append(segments("Which latency", choices, metric, choose));
  onWidth(body, left, () => chart.draw());
  const show = (compared: Compared) => {
    shown = compared;
    void draw();
  };
  return { element, show };
}

/** Requests a second of each run. */
export const throughputFigure = (left: AbortSignal): ComparedFigure =>
  barsFigure(
    "Throughput",
    "requests per second",
    ({ requestsPerS }) => requestsPerS ?? 0,
    left,
    (value) => value.toFixed(2),
  );
