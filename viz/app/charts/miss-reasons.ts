import * as Plot from "@observablehq/plot";
import { approximate, integer, percent } from "../data/format.ts";
import { missReasonLabels } from "../data/miss-shares.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot } from "./plot.ts";

/** The prompt tokens of a report: hits, and misses by their reason. */
export interface TokenCounts {
  readonly lookupTokens: number;
  readonly hitTokens: number;
  readonly missTokens: Readonly<Record<string, number>>;
}

/** Prompt tokens that hit, and those that missed by reason: horizontal bars. */
export function missReasonsFigure(tokens: TokenCounts, signal: AbortSignal): HTMLElement {
  const { element, body, note } = figure("Hits and miss reasons");
  const all = [
    { name: "hit", tokens: tokens.hitTokens, colour: "var(--c2)" },
    ...Object.entries(tokens.missTokens).map(([name, count]) => ({
      name: missReasonLabels[name] ?? name,
      tokens: count,
      colour: "var(--c1)",
    })),
  ];
  const bars = all.filter(({ tokens: count }) => count > 0);
  const absent = all.filter(({ tokens: count }) => count === 0).map(({ name }) => name);
  const share = (count: number) => percent(count / Math.max(1, tokens.lookupTokens));
  note(absent.length > 0 ? `No tokens: ${absent.join(", ")}.` : "");
  onWidth(body, signal, (width) => {
    drawPlot(body, {
      width,
      height: 60 + bars.length * 40,
      marginLeft: 130,
      marginRight: 104,
      marginBottom: 44,
      x: {
        label: "prompt tokens",
        labelOffset: 38,
        grid: true,
        ticks: 4,
        tickFormat: (value: number) => approximate(value),
      },
      y: { label: null, domain: bars.map(({ name }) => name), padding: 0.3 },
      ariaLabel: `Prompt tokens: ${bars.map(({ name, tokens: count }) => `${name} ${integer(count)}, ${share(count)}`).join("; ")}`,
      marks: [
        Plot.barX(bars, { x: "tokens", y: "name", fill: "colour", rx: 3 }),
        Plot.text(bars, {
          x: "tokens",
          y: "name",
          text: ({ tokens: count }) => `${approximate(count)} · ${share(count)}`,
          textAnchor: "start",
          dx: 6,
          fill: "currentColor",
        }),
      ],
    });
  });
  return element;
}
