import type { RunRow } from "../../api.ts";
import { byLabel, type Compared, type ComparedFigure, colourOf, isBound } from "../compared.ts";
import { approximate, integer, percent, roundPercent } from "../controls/format.ts";
import { barsFigure } from "./bars.ts";
import { figure, onWidth } from "./figure.ts";
import { type Line, LineChart } from "./lines.ts";

/** Runs of one size have no curve. */
export const haveOneSize = ({ rows }: Compared): boolean =>
  new Set(rows.map(({ capacityTokens }) => capacityTokens)).size === 1;

/** Hit ratio against the size of the cache: a line for each policy, bounds dashed. */
export function capacityFigure(metricOf: () => string, left: AbortSignal): ComparedFigure {
  const { element, body, note } = figure("Hit ratio by cache size");
  const chart = new LineChart(body, {
    title: "Hit ratio by cache size",
    x: { label: "cache size, tokens (logarithmic)", log: true, format: approximate },
    y: { label: "hit ratio", fromZero: true, format: roundPercent },
    marks: true,
  });
  onWidth(body, left, () => chart.draw());
  const show = (compared: Compared) => {
    note(boundsNote(compared));
    chart.update(linesOf(withBounds(compared), metricOf()));
  };
  return { element, show };
}

/** Hit ratios of runs of the same size: a bar each. */
export function hitRatioBars(metricOf: () => string, left: AbortSignal): ComparedFigure {
  const of = ({ hitRatio }: RunRow) => hitRatio[metricOf()] ?? 0;
  const { element, note, show } = barsFigure("Hit ratio", "hit ratio", of, left, percent, roundPercent);
  const showAll = (compared: Compared) => {
    note(boundsNote(compared));
    show(withBounds(compared));
  };
  return { element, show: showAll };
}

const withBounds = (compared: Compared): Compared => ({
  ...compared,
  rows: [...compared.rows, ...compared.bounds],
  bounds: [],
});

/** Bounds are runs like others: of a trace that nobody has compared on there are none. */
function boundsNote(compared: Compared): string {
  if (withBounds(compared).rows.some(isBound)) return "";
  if (compared.isUnchecked) return "These are too many runs to check which of the saved bounds hold for all of them.";
  return "No bounds are saved that hold for all of these. A comparison on target cache saves those of what it compares.";
}

function linesOf(compared: Compared, metric: string): Line[] {
  const seen = new Set<string>();
  /** Bounds that are the same whatever else was configured are drawn once. */
  const isNew = ([, rows]: [string, readonly RunRow[]]) => {
    const line = rows.map((row) => `${row.capacityTokens} ${row.hitRatio[metric]}`).join();
    return !isBound(rows[0]) || (!seen.has(line) && seen.add(line));
  };
  const shortestFirst = [...byLabel(compared)].sort(([a], [b]) => a.length - b.length);
  return shortestFirst.filter(isNew).map(([label, rows]) => ({
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
