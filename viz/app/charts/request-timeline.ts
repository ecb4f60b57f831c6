import * as Plot from "@observablehq/plot";
import { h } from "../controls/dom.ts";
import { milliseconds, tickMs } from "../data/format.ts";
import type { Phase } from "../data/request-times.ts";
import { figure, onWidth } from "./figure.ts";
import { joinedSvg } from "./panels.ts";
import { drawPlot } from "./plot.ts";

/** The phases of one request in a run. */
export interface Timeline {
  readonly name: string;
  readonly phases: readonly Phase[];
}

const colours = { queueing: "var(--c7)", prefill: "var(--c1)", decode: "var(--c0)" } as const;

/** From the arrival of a request to its last token, a bar for each run. */
export function requestTimeline(timelines: readonly Timeline[], signal: AbortSignal): HTMLElement {
  const { element, body } = figure("Time from the arrival", () => joinedSvg(body));
  const bars = timelines.flatMap(({ name, phases }) => {
    const startNs = phases[0]?.fromNs ?? 0;
    return phases.map((phase) => ({
      ...{ run: name, phase: phase.name },
      ...{ from: (phase.fromNs - startNs) / 1e6, to: (phase.toNs - startNs) / 1e6 },
    }));
  });
  const text = ({ phase, from, to }: (typeof bars)[number]) => `${phase} ${milliseconds(to - from)}`;
  const plot = h("div");
  const keys = Object.entries(colours).map(([name, colour]) => {
    const swatch = h("span", { class: "swatch" });
    swatch.style.background = colour;
    return h("span", {}, swatch, name);
  });
  body.append(h("p", { class: "keys" }, ...keys), plot);
  onWidth(body, signal, (width) => {
    const longest = Math.max(...timelines.map(({ name }) => name.length));
    const marginLeft = timelines.length === 1 ? 16 : Math.min(width * 0.4, 20 + longest * 7.5);
    const maxLength = Math.floor((marginLeft - 14) / 7);
    drawPlot(plot, {
      width,
      height: 60 + timelines.length * 36,
      ...{ marginLeft, marginRight: 20, marginBottom: 42 },
      x: {
        label: "time since the arrival",
        labelOffset: 36,
        grid: true,
        ticks: 5,
        tickFormat: tickMs,
        domain: [0, Math.max(...bars.map(({ to }) => to))],
      },
      y: {
        label: null,
        domain: timelines.map(({ name }) => name),
        padding: 0.2,
        axis: timelines.length === 1 ? null : "left",
        tickFormat: (name: string) => (name.length > maxLength ? `${name.slice(0, maxLength - 1)}…` : name),
      },
      ariaLabel: `Time from the arrival. ${timelines
        .map(
          ({ name }) =>
            `${name}: ${bars
              .filter(({ run }) => run === name)
              .map(text)
              .join(", ")}`,
        )
        .join("; ")}`,
      marks: [
        Plot.barX(bars, {
          ...{ x1: "from", x2: "to", y: "run", stroke: "var(--card)", strokeWidth: 1 },
          fill: ({ phase }: (typeof bars)[number]) => colours[phase],
          title: (each: (typeof bars)[number]) => `${each.run}\n${text(each)}`,
          tip: true,
        }),
      ],
    });
  });
  return element;
}
