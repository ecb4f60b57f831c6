import * as Plot from "@observablehq/plot";
import { type MetricName, type Metrics, metrics } from "../../lab/experiments/metrics.ts";
import { type Column, colours, figure, labelMargin, percent, table } from "./figure.ts";

/** The document of `kvlab experiment NAME --json`. */
export interface ExperimentDocument {
  readonly name: string;
  readonly about: string;
  readonly source: string;
  readonly target: string;
  readonly workload: string;
  readonly rows: readonly {
    readonly configuration: string;
    readonly published: Metrics | null;
    readonly simulated?: Metrics;
    readonly measured?: Metrics;
  }[];
  readonly headlines: readonly Ratio[];
  readonly explanations: readonly string[];
}

/** A main result as a ratio; `published` is null, a number, or a range whose end may be open. */
interface Ratio {
  readonly ratio: string;
  readonly published: number | readonly (number | null)[] | null;
  readonly simulated?: number;
  readonly measured?: number;
  readonly hasShape: boolean | null;
}

const publishedColour = colours[1];

type Row = ExperimentDocument["rows"][number];

const metricsOf = ({ simulated, measured }: Row): Metrics => simulated ?? measured ?? {};
const ourName = (target: string) => (target === "sim" ? "kvlab, simulated" : `kvlab, measured (${target})`);

type RatioPoint = { readonly ratio: string; readonly value: number; readonly by: string };

/** Published ratios beside ours, on a logarithmic axis; grey: from the square root to the square of the published ratio. */
export function ratioFigure({ name, source, target, headlines }: ExperimentDocument): HTMLElement | SVGSVGElement {
  const ours = ourName(target);
  const points = headlines.flatMap((headline): RatioPoint[] => [
    ...ends(headline.published).map((value) => ({ ratio: headline.ratio, value, by: "published" })),
    { ratio: headline.ratio, value: ourRatio(headline), by: ours },
  ]);
  const bands = headlines.flatMap(({ ratio, published }) => {
    const [least, most = least] = ends(published);
    if (least === undefined) return [];
    return [{ ratio, from: Math.min(Math.sqrt(least), least ** 2), to: Math.max(Math.sqrt(most), most ** 2) }];
  });
  return figure({
    title: `${name}: published ratios and ours`,
    caption: `Source: ${source}. Grey: from the square root to the square of the published ratio.`,
    height: 70 + 34 * headlines.length,
    marginLeft: labelMargin(headlines.map(({ ratio }) => ratio)),
    marginRight: 30,
    x: { type: "log", label: "ratio →", tickFormat: "~g" },
    y: { label: null, domain: headlines.map(({ ratio }) => ratio) },
    color: { domain: [ours, "published"], range: [colours[0], publishedColour] },
    symbol: { domain: [ours, "published"], range: ["circle", "diamond"] },
    marks: [
      Plot.barX(bands, { x1: "from", x2: "to", y: "ratio", fill: "#8883", insetTop: 4, insetBottom: 4 }),
      Plot.ruleX([1], { strokeDasharray: "4 3" }),
      Plot.dot(points, { x: "value", y: "ratio", fill: "by", stroke: "by", symbol: "by", r: 5, tip: true }),
    ],
  });
}

const ends = (published: Ratio["published"]): number[] =>
  (typeof published === "number" ? [published] : (published ?? [])).filter((end): end is number => end !== null);

/** All configurations with each metric, and the published value beside it where there is one. */
export function rowTable({ name, rows }: ExperimentDocument): HTMLElement {
  const names = (Object.keys(metrics) as MetricName[]).filter((metric) => rows.some((row) => metric in metricsOf(row)));
  const columns = names.flatMap((metric): Column<Row>[] => {
    const { label, share } = metrics[metric] as { label: string; share?: true };
    const shown = (value: number | undefined) => (value !== undefined && share ? percent(value) : value);
    const ours: Column<Row> = { label, of: (row) => shown(metricsOf(row)[metric]) };
    if (!rows.some(({ published }) => published && metric in published)) return [ours];
    return [ours, { label: "published", of: ({ published }) => shown(published?.[metric]) }];
  });
  return table(rows, [{ label: "configuration", of: ({ configuration }) => configuration }, ...columns], name);
}

/** Our value of a ratio. */
export const ourRatio = ({ simulated, measured }: Ratio): number => (simulated ?? measured)!;

/** The ratio of this name. @throws Error if the experiment has none */
export function ratioOf({ name, headlines }: ExperimentDocument, ratio: string): number {
  const found = headlines.find((headline) => headline.ratio === ratio);
  if (!found)
    throw new Error(`${name} has no ratio "${ratio}", only ${headlines.map((each) => each.ratio).join(", ")}`);
  return ourRatio(found);
}

/** A metric of a configuration. @throws Error if the experiment has no such configuration or metric */
export function metricOf({ name, rows }: ExperimentDocument, configuration: string, metric: MetricName): number {
  const row = rows.find((each) => each.configuration === configuration);
  const value = row && metricsOf(row)[metric];
  if (value === undefined) throw new Error(`${name} has no ${metric} of "${configuration}"`);
  return value;
}

export interface RowFigure {
  readonly title: string;
  readonly metric: MetricName;
  /** The label of the x axis, with its unit. */
  readonly label: string;
  /** The rows that are shown; by default those with the metric. */
  readonly shows?: (configuration: string) => boolean;
}

/** One metric of all configurations as bars, with the published values. Several documents are side by side. */
export function rowFigure(documents: readonly ExperimentDocument[], chosen: RowFigure): HTMLElement | SVGSVGElement {
  const { title, metric, label, shows = () => true } = chosen;
  const bars = documents.flatMap(({ target, rows }) =>
    rows.flatMap((row) => {
      const value = metricsOf(row)[metric];
      if (value === undefined || !shows(row.configuration)) return [];
      return [{ configuration: row.configuration, value, by: ourName(target) }];
    }),
  );
  const published = documents[0].rows.flatMap((row) => {
    const value = row.published?.[metric];
    return value !== undefined && shows(row.configuration) ? [{ configuration: row.configuration, value }] : [];
  });
  const names = [...new Set(bars.map(({ configuration }) => configuration))];
  const ours = documents.map(({ target }) => ourName(target));
  return figure({
    title,
    caption: `Source: ${documents[0].source}.${published.length > 0 ? " Diamonds: published." : " The source has no such number."}`,
    height: 70 + names.length * 14 * (ours.length + 1),
    marginLeft: labelMargin(names),
    marginRight: 40,
    x: { label: `${label} →` },
    y: { label: null, axis: null, domain: ours },
    fy: { label: null, domain: names },
    color: {
      domain: published.length > 0 ? [...ours, "published"] : ours,
      range: [...ours.map((_, i) => (i === 0 ? colours[0] : colours[2])), publishedColour],
    },
    marks: [
      Plot.barX(bars, { x: "value", y: "by", fy: "configuration", fill: "by", tip: true }),
      Plot.dot(published, {
        x: "value",
        fy: "configuration",
        fill: publishedColour,
        symbol: "diamond2",
        r: 5,
        tip: true,
      }),
    ],
  });
}
