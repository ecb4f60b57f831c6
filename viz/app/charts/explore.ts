import type { RunRow } from "../../api.ts";
import { select, setChoices } from "../controls/dom.ts";
import { isBound } from "../data/comparison.ts";
import { seriesOf } from "../data/explore-lines.ts";
import { autoSeries, type ChosenFigure, chosenFigure, mostFacets, panelsOf, type Requested } from "../data/figures.ts";
import { groupsOf } from "../data/parameters.ts";
import { updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { figure, onWidth } from "./figure.ts";
import { heatMapPanels } from "./heat-map.ts";
import { linePanels } from "./line-panels.ts";
import { missPanels } from "./miss-shares.ts";
import { joinedSvg, Panels } from "./panels.ts";

/** Results of several runs against their settings: ready-made figures, or any axes, series and facets. */
export function exploreFigure({ params, signal }: ViewContext): ComparisonFigure {
  const { element, body, tools, note, setTitle } = figure("Any result by any setting", () => joinedSvg(body));
  let requested: Requested = {
    ...{ figure: params.get("figure"), x: params.get("x"), y: params.get("y") },
    ...{ series: params.get("series"), facets: params.get("facets") },
  };
  let rows: readonly RunRow[] = [];
  const panels = new Panels(body);
  const choose = (name: keyof Requested) => (value: string) => {
    const none = { x: null, y: null, series: null, facets: null };
    requested = { ...requested, ...(name === "figure" && none), [name]: value === "" ? null : value };
    updateRoute(Object.fromEntries(Object.entries(requested).map(([key, each]) => [key, each ?? ""])));
    draw();
  };
  const lists = {
    figure: select("Figure", [], "", choose("figure")),
    y: select("y axis", [], "", choose("y")),
    x: select("x axis", [], "", choose("x")),
    series: select("Series", [], "", choose("series")),
    facets: select("Facets", [], "", choose("facets")),
  };
  tools.append(...Object.values(lists));
  const showChoices = (chosen: ChosenFigure) => {
    const { x, ys, series, facets, parameters } = chosen;
    const named = (all: readonly { readonly name: string; readonly label: string }[]) =>
      all.map(({ name, label }) => ({ value: name, label }));
    setChoices(lists.figure, named(chosen.figures), chosen.name);
    const each = ys.length > 1 ? [{ value: "", label: ys.map(({ label }) => label).join("; ") }] : [];
    setChoices(lists.y, [...each, ...named(chosen.results)], ys.length > 1 ? "" : (ys[0]?.name ?? ""));
    setChoices(lists.x, named(chosen.abscissas), x?.name ?? "");
    const auto = { value: autoSeries, label: chosen.kind === "misses" ? "all that differ" : "system or policy" };
    setChoices(lists.series, [auto, ...named(parameters)], series?.name ?? autoSeries);
    setChoices(lists.facets, [{ value: "", label: "none" }, ...named(parameters)], facets?.name ?? "");
    for (const list of [lists.x, lists.y]) list.hidden = chosen.kind === "misses";
    lists.facets.hidden = ys.length > 1;
  };
  const draw = () => {
    const chosen = chosenFigure(rows, requested);
    element.hidden = chosen === undefined;
    if (chosen === undefined) return;
    setTitle(chosen.label);
    showChoices(chosen);
    const { x, ys, kind, facets } = chosen;
    const parts = panelsOf(rows, chosen);
    const isFixed = x === undefined || kind === "misses";
    const omitted = [facets?.name, ...(isFixed ? [] : [x.name])].filter((name) => name !== undefined);
    const series = seriesOf(rows, chosen.series, omitted);
    if (kind === "misses") panels.show(missPanels(parts, series.labelOf));
    else if (x === undefined || ys.length === 0) panels.show([]);
    else if (kind === "heat map") panels.show(heatMapPanels(parts, x, series.labelOf));
    else panels.show(linePanels(parts, x, series, kind));
    note(notesOf(rows, chosen).join(" "));
  };
  onWidth(body, signal, () => panels.draw());
  const show = ({ rows: all }: { readonly rows: readonly RunRow[] }) => {
    rows = all.filter((row) => !isBound(row));
    draw();
  };
  return { element, show };
}

/** Which runs are left out, and how the figure is read. */
function notesOf(rows: readonly RunRow[], { x, ys, kind, facets }: ChosenFigure): string[] {
  const isWithout = (row: RunRow) =>
    kind === "misses"
      ? row.missTokens === undefined
      : x?.of(row) === undefined || ys.every(({ of }) => of(row) === undefined);
  const without = rows.filter(isWithout).length;
  const hidden = facets === undefined ? 0 : groupsOf(rows, facets).size - mostFacets;
  const [y] = ys;
  return [
    ...(without > 0
      ? [`${without} of ${rows.length} runs do not have ${kind === "misses" ? "miss reasons" : "both values"}.`]
      : []),
    ...(hidden > 0 ? [`The first ${mostFacets} facets are drawn; ${hidden} are not.`] : []),
    ...(kind === "lines" && y?.interval ? ["Bands: 95 % intervals. Only hit ratios of kvlab compare have them."] : []),
    ...(kind === "heat map" ? ["Empty cells were not run. Bold: the best of a column."] : []),
    ...(kind === "front"
      ? [`Pareto front: no run has ${y?.isLessBetter ? "a lower" : "a higher"} value at the same or a lower x.`]
      : []),
  ];
}
