import * as Plot from "@observablehq/plot";
import type { RunRow } from "../../api.ts";
import { h } from "../controls/dom.ts";
import type { Panel } from "../data/figures.ts";
import { percent } from "../data/format.ts";
import { type MissShares, missSharesOf, tokenKindLabel, tokenKinds } from "../data/miss-shares.ts";
import type { Chart, PanelContent } from "./panels.ts";
import { drawPlot } from "./plot.ts";

interface MissData {
  readonly title: string;
  readonly bars: readonly MissShares[];
}

/** At most so many bars are drawn in a panel. */
const mostBars = 48;

/** The prompt tokens of the runs of each label, as a stacked bar, for each panel. */
export const missPanels = (panels: readonly Panel[], labelOf: (row: RunRow) => string): PanelContent<MissData>[] =>
  panels.map(({ title, rows }) => ({
    ...{ title, kind: "misses", create: (host: HTMLElement) => new MissChart(host) },
    data: { title, bars: missSharesOf(rows, labelOf) },
  }));

const colours: Readonly<Record<string, string>> = {
  hit: "var(--c2)",
  "never-seen": "var(--c7)",
  evicted: "var(--c1)",
  "past-hole": "var(--c3)",
  "shorter-than-block": "var(--c5)",
  "other-namespace": "var(--c6)",
  "not-yet-computed": "var(--c0)",
  "match-limit": "var(--idle)",
  refused: "var(--c4)",
};

class MissChart implements Chart<MissData> {
  readonly #host: HTMLElement;
  #data: MissData = { title: "", bars: [] };

  constructor(host: HTMLElement) {
    this.#host = host;
  }

  update(data: MissData): void {
    this.#data = data;
    this.draw();
  }

  draw(): void {
    const width = this.#host.clientWidth;
    if (width > 0) drawBars(this.#host, width, this.#data);
  }
}

function drawBars(host: HTMLElement, width: number, { title, bars }: MissData): void {
  const drawn = bars.slice(0, mostBars);
  const kinds = [...new Set([...tokenKinds, ...drawn.flatMap(({ shares }) => shares.map(({ kind }) => kind))])].filter(
    (kind) => drawn.some(({ shares }) => shares.some((each) => each.kind === kind)),
  );
  const segments = drawn.flatMap(({ label, shares }) => shares.map((each) => ({ label, ...each })));
  const longest = Math.max(4, ...drawn.map(({ label }) => label.length));
  const marginLeft = Math.min(width * 0.4, 20 + longest * 7.5);
  const maxLength = Math.floor((marginLeft - 14) / 7);
  const legend = h("p", { class: "keys" }, ...kinds.map(keyOf));
  const summary = drawn.map(
    ({ label, shares }) =>
      `${label}: ${shares.map(({ kind, share }) => `${tokenKindLabel(kind)} ${percent(share)}`).join(", ")}`,
  );
  const body = h("div");
  drawPlot(body, {
    width,
    height: 54 + drawn.length * 30,
    marginLeft,
    marginRight: 18,
    marginBottom: 42,
    x: { label: "share of prompt tokens", labelOffset: 36, domain: [0, 1], ticks: 5, tickFormat: "~%", grid: true },
    y: {
      label: null,
      domain: drawn.map(({ label }) => label),
      padding: 0.2,
      tickFormat: (label: string) => (label.length > maxLength ? `${label.slice(0, maxLength - 1)}…` : label),
    },
    ariaLabel: `Hits and miss reasons${title && `, ${title}`}. ${summary.join("; ")}`,
    marks: [
      Plot.barX(
        segments,
        Plot.stackX({
          order: (each: { readonly kind: string }) => kinds.indexOf(each.kind),
          ...{ x: "share", y: "label", fill: ({ kind }: { readonly kind: string }) => colours[kind] ?? "var(--c7)" },
          ...{ stroke: "var(--card)", strokeWidth: 1 },
          title: ({ label, kind, share }: (typeof segments)[number]) =>
            `${label}\n${tokenKindLabel(kind)}: ${percent(share)}`,
          tip: true,
        }),
      ),
    ],
  });
  host.replaceChildren(legend, body);
}

function keyOf(kind: string): HTMLElement {
  const swatch = h("span", { class: "swatch" });
  swatch.style.background = colours[kind] ?? "var(--c7)";
  return h("span", {}, swatch, tokenKindLabel(kind));
}
