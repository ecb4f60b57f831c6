import { barsOf, drawBars } from "./bars.ts";
import { type Compared, colourOf, nameOf } from "./compared.ts";
import { segments } from "./dom.ts";
import { figure, onWidth } from "./figure.ts";
import { latencies, milliseconds, tickMs } from "./format.ts";
import { LineChart } from "./lines.ts";
import type { Page } from "./page.ts";
import { remember } from "./route.ts";
import { getRequests } from "./server.ts";

const short: Readonly<Record<string, string>> = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "Latency", queueMs: "Queue" };

/** All quantiles of a latency, a line for each run: how slow the slowest are, not only the middle. */
export function latencyFigure(compared: Compared, { params, left }: Page): HTMLElement {
  const { element, body, tools, note } = figure("Latencies");
  let metric = params.get("latency") ?? "ttftMs";
  const answers = Promise.all(compared.rows.map(({ id }) => getRequests(id, left)));
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
  const show = async () => {
    const all = await answers;
    const lines = compared.rows.map((row, i) => ({
      label: nameOf(compared, row.id),
      colour: colourOf(compared, row),
      points: (all[i].quantiles[metric] ?? []).map((ms, percent) => ({
        x: percent / 100,
        y: Math.max(ms, 0.01),
        text: `${percent}% of requests: at most ${milliseconds(ms)}`,
      })),
    }));
    chart.update(
      lines.filter(({ points }) => points.length > 0),
      options(metric),
    );
  };
  const choose = (value: string) => {
    metric = value;
    remember({ latency: value });
    void show();
  };
  const choices = Object.keys(short).map((value) => ({ value, label: short[value] }));
  tools.append(segments("Which latency", choices, metric, choose));
  onWidth(body, left, () => chart.draw());
  show().catch((error) => !left.aborted && note(error.message));
  return element;
}

/** Requests a second of each run. */
export function throughputFigure(compared: Compared, left: AbortSignal): HTMLElement {
  const { element, body } = figure("Throughput");
  const bars = barsOf(compared, ({ requestsPerS }) => requestsPerS ?? 0);
  onWidth(body, left, (width) => drawBars(body, width, bars, "requests per second", (value) => value.toFixed(2)));
  return element;
}
