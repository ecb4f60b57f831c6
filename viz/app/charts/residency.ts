import * as Plot from "@observablehq/plot";
import { segments } from "../controls/dom.ts";
import { approximate, integer, percent, roundPercent } from "../data/format.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot } from "./plot.ts";

interface Distribution {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly bins: readonly { readonly from: number; readonly below: number; readonly count: number }[];
}

/** The field `residency` of a report. */
export interface ResidencyReport {
  readonly ageUnit: "ns" | "requests";
  readonly ageAtHit: Distribution;
  readonly ageAtEviction: Distribution;
  readonly lifetime: Distribution;
  readonly hitsPerBlock: Distribution;
  readonly ageAtMiss: Distribution;
}

interface Series {
  readonly name: string;
  readonly colour: string;
  readonly of: (report: ResidencyReport) => Distribution;
  /** Unit of the counted values. */
  readonly counted: string;
}

interface Choice {
  readonly name: string;
  readonly axis: (age: string) => string;
  readonly series: readonly Series[];
}

const blocks = (name: string, colour: string, of: Series["of"]): Series => ({ name, colour, of, counted: "blocks" });

/** Histograms that are drawn together have the same axis. */
const choices: readonly Choice[] = [
  {
    name: "Ages",
    axis: (age) => `${age} since the last use of the block`,
    series: [
      blocks("at hit", "var(--c2)", ({ ageAtHit }) => ageAtHit),
      blocks("at eviction", "var(--c1)", ({ ageAtEviction }) => ageAtEviction),
    ],
  },
  {
    name: "Lifetimes",
    axis: (age) => `${age} from the publication of a block to its removal`,
    series: [blocks("lifetime", "var(--c1)", ({ lifetime }) => lifetime)],
  },
  {
    name: "Hits",
    axis: () => "hits of a block",
    series: [blocks("hits", "var(--c2)", ({ hitsPerBlock }) => hitsPerBlock)],
  },
  {
    name: "Misses",
    axis: (age) => `${age} from the removal of a block to its next lookup`,
    series: [{ name: "missed", colour: "var(--c1)", of: ({ ageAtMiss }) => ageAtMiss, counted: "tokens" }],
  },
];

/** Histograms of the residency of blocks, one kind at a time. */
export function residencyFigure(report: ResidencyReport, signal: AbortSignal): HTMLElement {
  const { element, body, tools, note } = figure("Residency of blocks");
  let [chosen] = choices;
  const draw = () => {
    if (body.clientWidth > 0) drawChoice(body, body.clientWidth, chosen, report);
    note(noteOf(chosen, report));
  };
  tools.append(
    segments(
      "Histogram",
      choices.map(({ name }) => ({ value: name, label: name })),
      chosen.name,
      (name) => {
        chosen = choices.find((choice) => choice.name === name) ?? chosen;
        draw();
      },
    ),
  );
  onWidth(body, signal, draw);
  return element;
}

interface Bar {
  readonly bin: string;
  readonly name: string;
  readonly share: number;
}

function drawChoice(body: HTMLElement, width: number, { axis, series }: Choice, report: ResidencyReport): void {
  const unit = series[0].name === "hits" ? "hits" : report.ageUnit;
  const age = report.ageUnit === "ns" ? "time" : "requests";
  const shown = series.filter(({ of }) => of(report).count > 0);
  const edges = new Map(shown.flatMap(({ of }) => of(report).bins.map(({ from, below }) => [from, below] as const)));
  const bins = [...edges].sort(([a], [b]) => a - b).map(([from, below]) => binText(from, below, unit));
  const bars: Bar[] = shown.flatMap(({ name, of }) => {
    const { bins: own, count } = of(report);
    return own.map(({ from, below, count: each }) => ({ bin: binText(from, below, unit), name, share: each / count }));
  });
  const longest = Math.max(0, ...bins.map((bin) => bin.length));
  const isRotated = bins.length * (longest * 8 + 12) > width;
  const labels = isRotated ? 14 + longest * 6 : 20;
  drawPlot(body, {
    width,
    height: 250 + labels,
    marginTop: 34,
    marginBottom: labels + 30,
    marginLeft: 56,
    fx: { domain: bins, axis: null, padding: 0.12 },
    x: { domain: shown.map(({ name }) => name), axis: null, padding: 0 },
    y: { label: `share of ${series[0].counted}`, grid: true, tickFormat: roundPercent, zero: true },
    color: { domain: series.map(({ name }) => name), range: series.map(({ colour }) => colour) },
    ariaLabel: `${axis(age)}: ${bars.map(({ name, bin, share }) => `${name} ${bin} ${percent(share)}`).join("; ")}`,
    marks: [
      Plot.axisFx({
        ...{ anchor: "bottom", tickPadding: 6, ...(isRotated && { tickRotate: -55, textAnchor: "end" }) },
        ...{ label: axis(age), labelAnchor: "center", labelOffset: labels + 24, labelArrow: "none" },
      }),
      Plot.barY(bars, { fx: "bin", x: "name", y: "share", fill: "name" }),
      Plot.ruleY([0]),
      ...(shown.length > 1 ? shown.map(legendText) : []),
    ],
  });
}

/** The name of a series in its colour, above the plot. */
const legendText = ({ name, colour }: Series, i: number) =>
  Plot.text([`■ ${name}`], {
    ...{ facet: "super" as const, frameAnchor: "top-right" as const, textAnchor: "end" as const },
    ...{ dx: -110 * i, dy: -24, fill: colour, fontWeight: 600 },
  });

/** For each series: the number of values, the median and p99. */
function noteOf({ series }: Choice, report: ResidencyReport): string {
  return series
    .map(({ name, of, counted }) => {
      const { count, p50, p99 } = of(report);
      const text = (value: number) => valueText(value, name === "hits" ? "hits" : report.ageUnit);
      if (count === 0) return `${name}: no ${counted}`;
      return `${name}: ${integer(count)} ${counted}, median ${text(p50)}, p99 ${text(p99)}`;
    })
    .join("; ");
}

type Unit = ResidencyReport["ageUnit"] | "hits";

function binText(from: number, below: number, unit: Unit): string {
  if (unit === "ns") return from === 0 ? "0" : `${valueText(from, unit)} –`;
  return below - from === 1 ? integer(from) : `${integer(from)}–${integer(below - 1)}`;
}

function valueText(value: number, unit: Unit): string {
  if (unit !== "ns") return integer(value);
  const [size, name] = value < 1e6 ? [1e3, "µs"] : value < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${approximate(value / size)} ${name}`;
}
