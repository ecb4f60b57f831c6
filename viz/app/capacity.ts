import type { RunRow } from "../api.ts";
import { type Compared, colourOf, isBound } from "./compare.ts";
import { figure, onWidth } from "./figure.ts";
import { approximate, integer, percent } from "./format.ts";
import { type Line, LineChart } from "./lines.ts";

/** Hit ratio against the size of the cache: a line for each policy, bounds dashed. */
export function capacityFigure(compared: Compared, left: AbortSignal) {
  const { element, body, note } = figure("Hit ratio by cache size");
  const chart = new LineChart(body, {
    title: "Hit ratio by cache size",
    x: { label: "cache size, tokens (logarithmic)", log: true, format: approximate },
    y: { label: "hit ratio", fromZero: true, format: (value) => `${Math.round(value * 100)}%` },
    marks: true,
  });
  onWidth(body, left, () => chart.draw());
  const sizes = new Set(compared.rows.map(({ capacityTokens }) => capacityTokens).filter((size) => size !== null));
  if (sizes.size === 1) note("All of these runs have the same size; runs of several sizes make curves.");
  return { element, show: (metric: string) => chart.update(linesOf(compared, metric)) };
}

function linesOf(compared: Compared, metric: string): Line[] {
  const byLabel = new Map<string, RunRow[]>();
  for (const row of compared.rows) {
    const label = compared.labels.get(row.id) ?? row.id;
    byLabel.set(label, [...(byLabel.get(label) ?? []), row]);
  }
  return [...byLabel].map(([label, rows]) => ({
    label,
    colour: colourOf(compared, rows[0]),
    dashed: isBound(rows[0]),
    isLevel: rows[0].blocks === null,
    points: rows.map((row) => ({
      x: row.capacityTokens ?? 1,
      y: row.hitRatio[metric] ?? 0,
      text: `${percent(row.hitRatio[metric] ?? 0)}\n${sizeText(row)}`,
    })),
  }));
}

const sizeText = ({ capacityTokens, blocks }: RunRow) =>
  capacityTokens === null ? "without limit" : `${integer(capacityTokens)} tokens, ${integer(blocks ?? 0)} blocks`;
