import type { RunRow } from "../../api.ts";
import { abscissasOf, defaultAxes, type Quantity, resultsOf } from "./axes.ts";
import { groupsOf, type Parameter, parametersOf } from "./parameters.ts";

/** How a figure of several runs is drawn. */
export type FigureKind = "lines" | "heat map" | "front" | "misses";

/** A ready-made choice of axes, series and facets. */
interface ReadyMade {
  /** In the URL. */
  readonly name: string;
  readonly label: string;
  readonly kind: FigureKind;
  /** Names of quantities, the first that the runs have. */
  readonly x?: readonly string[];
  /** Names of quantities; `isPanelEach`: a panel for each that the runs have, otherwise the first. */
  readonly y?: readonly string[];
  readonly isPanelEach?: boolean;
  readonly series?: readonly string[];
}

/** Of the figures that the runs have values for, the first is the default. */
const readyMade: readonly ReadyMade[] = [
  { name: "", label: "Any result by any setting", kind: "lines" },
  {
    ...{ name: "rates", label: "Service by offered rate", kind: "lines", isPanelEach: true },
    ...{ x: ["requestsPerS"], y: ["output", "goodput", "ttft99"] },
  },
  {
    ...{ name: "heat", label: "Heat map: policies × sizes or rates", kind: "heat map" },
    ...{ x: ["capacity", "requestsPerS"], y: ["hits-token"], series: ["preset", "eviction"] },
  },
  {
    ...{ name: "front", label: "Pareto front by memory or GPUs", kind: "front" },
    ...{ x: ["gpus", "memory", "capacity"], y: ["goodput", "ttft99", "hits-token"], series: ["preset", "eviction"] },
  },
  { name: "gain", label: "Gain over LRU with intervals", kind: "lines", x: ["capacity"], y: ["gain"] },
  { name: "misses", label: "Miss reasons of all runs", kind: "misses" },
];

/** Choices of the user, as in the URL; null: the default of the figure. */
export type Requested = Readonly<Record<"figure" | "x" | "y" | "series" | "facets", string | null>>;

/** A figure of several runs, and the choices that it offers. */
export interface ChosenFigure {
  readonly name: string;
  readonly label: string;
  readonly kind: FigureKind;
  readonly figures: readonly { readonly name: string; readonly label: string }[];
  readonly abscissas: readonly Quantity[];
  readonly results: readonly Quantity[];
  readonly parameters: readonly Parameter[];
  readonly x: Quantity | undefined;
  /** With several, there is a panel for each. */
  readonly ys: readonly Quantity[];
  /** undefined: as few settings as distinguish the runs. */
  readonly series: Parameter | undefined;
  /** There is a panel for each value. */
  readonly facets: Parameter | undefined;
}

/** The figure for these runs and choices; undefined if the runs differ in nothing that can be drawn. */
export function chosenFigure(rows: readonly RunRow[], requested: Requested): ChosenFigure | undefined {
  const [abscissas, results, parameters] = [abscissasOf(rows), resultsOf(rows), parametersOf(rows)];
  const has = (name: string) => abscissas.some((each) => each.name === name);
  const isPossible = ({ name, kind, x, y }: ReadyMade) => {
    if (kind === "misses") return rows.some(({ missTokens }) => missTokens !== undefined);
    if (name === "") return defaultAxes(rows) !== undefined;
    return (x?.some(has) ?? true) && (y?.some((each) => results.some((result) => result.name === each)) ?? true);
  };
  const possible = readyMade.filter(isPossible);
  const figure = possible.find(({ name }) => name === (requested.figure ?? "")) ?? possible[0];
  if (figure === undefined) return undefined;
  const defaults = defaultAxes(rows);
  const among = (all: readonly Quantity[], names: readonly (string | null | undefined)[]) =>
    names.map((name) => all.find((each) => each.name === name)).find((each) => each !== undefined);
  const x = among(abscissas, [requested.x, ...(figure.x ?? []), defaults?.x]) ?? abscissas[0];
  const wanted = figure.y ?? [defaults?.y];
  const each = wanted.flatMap((name) => results.find((result) => result.name === name) ?? []);
  const y = among(results, [requested.y, ...wanted]) ?? results[0];
  const isPanelEach = figure.isPanelEach === true && requested.y === null;
  const parameterOf = (name: string | null | undefined) => parameters.find((one) => one.name === name);
  const series =
    parameterOf(requested.series) ?? (figure.series ?? []).map(parameterOf).find((one) => one !== undefined);
  return {
    ...{ name: figure.name, label: figure.label, kind: figure.kind },
    figures: possible.map(({ name, label }) => ({ name, label })),
    ...{ abscissas, results, parameters },
    x,
    ys: isPanelEach && each.length > 0 ? each : y === undefined ? [] : [y],
    series: requested.series === autoSeries ? undefined : series,
    facets: parameterOf(requested.facets),
  };
}

/** In the URL: series by as few settings as distinguish the runs. */
export const autoSeries = "auto";

/** One of the small multiples of a figure. */
export interface Panel {
  /** The value of the facets; otherwise empty. */
  readonly title: string;
  readonly rows: readonly RunRow[];
  readonly y: Quantity | undefined;
}

/** At most so many facets are drawn. */
export const mostFacets = 12;

/** A panel for each result, or for each value of the facets. */
export function panelsOf(rows: readonly RunRow[], { ys, facets }: Pick<ChosenFigure, "ys" | "facets">): Panel[] {
  if (ys.length > 1) return ys.map((y) => ({ title: "", rows, y }));
  if (facets === undefined) return [{ title: "", rows, y: ys[0] }];
  const groups = [...groupsOf(rows, facets)].slice(0, mostFacets);
  return groups.map(([title, group]) => ({ title, rows: group, y: ys[0] }));
}
