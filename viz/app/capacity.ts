import type { RunRow } from "../api.ts";
import { barsFigure } from "./bars.ts";
import { type Compared, type ComparedFigure, colourOf, isBound } from "./compared.ts";
import { figure, onWidth } from "./figure.ts";
import { approximate, integer, percent, roundPercent } from "./format.ts";
import { type Line, LineChart } from "./lines.ts";

/** Runs of one size have no curve. */
export const haveOneSize = ({ rows }: Compared): boolean =>
  new Set(rows.map(({ capacityTokens }) => capacityTokens)).size === 1;

/** Hit ratio against the size of the cache: a line for each policy, bounds dashed. */
export function capacityFigure(metricOf: () => string, left: AbortSignal): ComparedFigure {
  const { element, body } = figure("Hit ratio by cache size");
  const chart = new LineChart(body, {
    title: "Hit ratio by cache size",
    x: { label: "cache size, tokens (logarithmic)", log: true, format: approximate },
    y: { label: "hit ratio", fromZero: true, format: roundPercent },
    marks: true,
  });
  onWidth(body, left, () => chart.draw());
  return { element, show: (compared) => chart.update(linesOf(compared, metricOf())) };
}

/** Hit ratios of runs of the same size: a bar each. */
export const hitRatioBars = (metricOf: () => string, left: AbortSignal): ComparedFigure =>
  barsFigure("Hit ratio", "hit ratio", ({ hitRatio }) => hitRatio[metricOf()] ?? 0, left, percent, roundPercent);

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
