import type { RunRow } from "../../api.ts";
import { exploreFigure } from "../charts/explore.ts";
import { hitRatioBars, hitRatioCurve } from "../charts/hit-ratio.ts";
import { latencyFigure, throughputFigure } from "../charts/latency.ts";
import { requestPairsFigure } from "../charts/request-pairs.ts";
import { configurationDiff } from "../controls/configuration-diff.ts";
import { differencesTable } from "../controls/differences-table.ts";
import { h, select, setChoices } from "../controls/dom.ts";
import { describeRuns } from "../controls/provenance.ts";
import { redrawing } from "../controls/redraw.ts";
import { reportButton } from "../controls/report-button.ts";
import { serviceTable } from "../controls/service-table.ts";
import { workloadOf } from "../data/answer.ts";
import { type Comparison, comparisonOf, isTimed } from "../data/comparison.ts";
import { hitRatios, integer } from "../data/format.ts";
import { haveOneSize } from "../data/line-breaks.ts";
import { versionOf as versionOfRow } from "../data/server.ts";
import { idList, idsIn, linkTo, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** The selected runs, or all runs of a trace: hit ratios, latencies, differences and request pairs. */
export const compareView: View = { name: "compare", title: "Compare", menuOrder: 2, show: showCompare };

/** Runs that are saved or removed meanwhile update the figures; the user's choices are kept. */
async function showCompare(context: ViewContext): Promise<void> {
  const { root, params, server, signal } = context;
  const isUnknown = (id: string) => !server.rows.some((row) => row.id === id);
  const requested = () =>
    idsIn(
      params.get("runs"),
      server.rows.map(({ id }) => id),
    );
  if (requested().some(isUnknown)) await server.refresh();
  if (signal.aborted) return;
  const requestedIds = requested();
  // The workload stays when runs of others are saved.
  const trace = params.get("trace") ?? undefined;
  const workload = params.get("workload") ?? (server.shownRows[0] && workloadOf(server.shownRows[0]));
  const isChosen = requestedIds.length > 0 || trace !== undefined;
  if (!isChosen) updateRoute({ workload });
  const choice = isChosen ? { ids: requestedIds, trace } : { ids: [], workload };
  const host = h("div");
  root.append(h("h1", {}, "Compare"), host);
  let shownVersion: string | undefined;
  let layout: { readonly key: string; show(selection: Selection, comparison: Comparison): void } | undefined;
  const rebuildWith = redrawing(context, host);
  const update = () => {
    const selection = selectionOf(server.rows, choice);
    const version = versionOf(selection);
    if (version === shownVersion) return;
    shownVersion = version;
    const comparison = comparisonOf(selection.rows, server.rows);
    const key = layoutKeyOf(comparison);
    if (key !== layout?.key) {
      rebuildWith((inner) => {
        layout = {
          key,
          show: comparison.rows.length === 0 ? buildEmpty(inner, comparison) : buildFigures(inner, comparison),
        };
        layout.show(selection, comparison);
      });
    } else layout.show(selection, comparison);
  };
  update();
  server.watch(update, signal);
}

/** Most runs that are compared: figures with more lines and points cannot be read. */
const mostCompared = 500;

/** The runs to compare, and the other choices that the view offers. */
interface Selection {
  readonly rows: readonly RunRow[];
  /** Number of older runs that are left out. */
  readonly left: number;
  readonly choice: Choice;
  /** All saved runs. */
  readonly all: readonly RunRow[];
}

/** What the URL selects: runs by their ids; all runs of a trace; or, as in the menu, those of a workload. */
interface Choice {
  readonly ids: readonly string[];
  readonly trace?: string | undefined;
  readonly workload?: string | undefined;
}

function selectionOf(all: readonly RunRow[], choice: Choice): Selection {
  const { ids, trace, workload } = choice;
  const requested = new Set(ids);
  const isSelected = (row: RunRow) =>
    requested.size > 0
      ? requested.has(row.id)
      : !row.notes?.hidden && (trace === undefined ? workloadOf(row) === workload : row.trace === trace);
  const selected = all.filter(isSelected);
  return { rows: selected.slice(0, mostCompared), left: Math.max(0, selected.length - mostCompared), choice, all };
}

/** Differs if anything that is shown differs. */
const versionOf = ({ rows, all }: Selection) =>
  [...rows, undefined, ...all].map((row) => row && versionOfRow(row)).join("\n");

/** Comparisons with equal keys have the same figures. */
const layoutKeyOf = (comparison: Comparison) =>
  [
    Math.min(3, comparison.rows.length),
    haveOneSize(comparison.rows),
    comparison.rows.some(isTimed),
    comparison.interrupted.length > 0,
  ].join();

function buildEmpty({ root }: ViewContext, { interrupted }: Comparison) {
  if (interrupted.length > 0) root.append(h("p", { class: "hint" }, "All selected runs were interrupted."));
  root.append(h("p", { class: "hint" }, "No runs to compare: ", h("a", { href: linkTo("runs") }, "select runs"), "."));
  return () => {};
}

/** Builds the figures of a layout, and returns the function that shows a comparison in them. */
function buildFigures(context: ViewContext, first: Comparison): (selection: Selection, comparison: Comparison) => void {
  const { root, params, signal } = context;
  let shown = first;
  let metric = params.get("metric") ?? "token";
  const metricOf = () => metric;
  const isOneSize = haveOneSize(first.rows);
  const areTimed = first.rows.some(isTimed);
  const capacity = isOneSize ? hitRatioBars(metricOf, signal) : hitRatioCurve(metricOf, signal);
  const differences = differencesTable(first, context, metricOf);
  const metrics = Object.keys(hitRatios).map((value) => ({ value, label: hitRatios[value] }));
  const setMetric = (value: string) => {
    metric = value;
    updateRoute({ metric });
    capacity.show(shown);
    differences.show(shown);
  };
  const goTo = (value: string) => {
    location.hash = linkTo("compare", { workload: value, metric });
  };
  const idsOf = () => [...shown.rows, ...shown.interrupted].map(({ id }) => id);
  const report = reportButton(idsOf, metricOf);
  describeRuns(root, () => shown.rows);
  const selectionBar = h("div");
  const workloadList = select("All runs of", [], "", goTo);
  root.append(
    h("div", { class: "bar" }, selectionBar, select("Hit ratio definition", metrics, metric, setMetric), report),
  );
  const timed = areTimed ? [latencyFigure(context), throughputFigure(signal), serviceTable()] : [];
  const warnings = h("ul");
  root.append(h("div", { class: "warnings", role: "status" }, warnings));
  const explore = first.rows.length > 2 ? exploreFigure(context) : undefined;
  if (explore && areTimed) root.append(explore.element);
  if (!areTimed || !isOneSize) root.append(capacity.element);
  if (explore && !areTimed) root.append(explore.element);
  if (areTimed) {
    const bars = h("div", {}, isOneSize && capacity.element, timed[1].element);
    root.append(h("div", { class: "grid" }, timed[0].element, bars), timed[2].element);
  }
  root.append(differences.element);
  const settings = h("div");
  root.append(settings);
  const pairs = first.rows.length > 1 ? requestPairsFigure(context) : undefined;
  if (pairs) root.append(pairs.element);
  return ({ rows, left, choice: { ids, trace, workload = "" }, all }, comparison) => {
    shown = comparison;
    warnings.replaceChildren(...[...leftText(left), ...warningsOf(comparison)].map((text) => h("li", {}, text)));
    warnings.parentElement!.hidden = warnings.childElementCount === 0;
    if (ids.length > 0) selectionBar.replaceChildren(...selectionText(rows, ids));
    else {
      const every = trace === undefined ? [] : [{ value: "", label: `${trace}, every run` }];
      const workloads = [...new Set(all.map(workloadOf))].map((value) => ({ value, label: value }));
      setChoices(workloadList, [...every, ...workloads], workload);
      if (!workloadList.isConnected) selectionBar.replaceChildren(workloadList);
    }
    capacity.show(comparison);
    explore?.show(comparison);
    differences.show(comparison);
    const [a, b, ...others] = [...comparison.rows, ...comparison.interrupted];
    settings.replaceChildren(...(b !== undefined && others.length === 0 ? [configurationDiff(a, b)] : []));
    pairs?.show(comparison);
    for (const figure of timed) figure.show({ ...comparison, rows: comparison.rows.filter(isTimed) });
  };
}

const leftText = (left: number) =>
  left === 0 ? [] : [`The newest ${mostCompared} runs are compared; ${integer(left)} older ones are left out.`];

/** Why runs are not comparable, and which are left out. */
function warningsOf({ warnings, interrupted, rows }: Comparison): string[] {
  const names = interrupted.slice(0, 3).map(({ id }) => id);
  const more = interrupted.length > names.length ? `, and ${interrupted.length - names.length} more` : "";
  const refusing = rows.filter(({ refused, requests }) => refused === requests);
  return [
    ...(warnings.length > 0
      ? ["The runs are not of one workload: their differences are not only those of policies."]
      : []),
    ...warnings,
    ...(interrupted.length > 0 ? [`Interrupted runs are not drawn: ${names.join(", ")}${more}.`] : []),
    ...(refusing.length > 0 ? [`${refusing.length} of the runs refused every request.`] : []),
  ];
}

function selectionText(rows: readonly RunRow[], requestedIds: readonly string[]): Node[] {
  const count = rows.length;
  const missing = requestedIds.filter((id) => !rows.some((row) => row.id === id));
  const gone = missing.slice(0, 3).join(", ") + (missing.length > 3 ? " …" : "");
  const link = h("a", { href: linkTo("runs", { runs: idList(requestedIds) }) }, "change selection");
  const runs = count === 1 ? "1 selected run" : `${count} selected runs`;
  return [
    h("p", { class: "count" }, `${runs}${missing.length > 0 ? `, ${missing.length} not found: ${gone}` : ""} · `, link),
  ];
}
