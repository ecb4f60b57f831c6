import type { RunDetail, RunRow } from "../../api.ts";
import { haveOneSize, hitRatioBars, hitRatioCurve } from "../charts/hit-ratio.ts";
import { latencyFigure, throughputFigure } from "../charts/latency.ts";
import { requestPairsFigure } from "../charts/request-pairs.ts";
import { differencesTable } from "../controls/differences-table.ts";
import { h, rebuild, select, setChoices } from "../controls/dom.ts";
import { type Comparison, isBound, isTimed } from "../data/comparison.ts";
import { hitRatios } from "../data/format.ts";
import { labelColours, reportSettings, runLabels } from "../data/run-labels.ts";
import { getRun } from "../data/server.ts";
import { linkTo, readRoute, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** More latency curves than this cannot be distinguished. */
const maxLatencyCurves = 12;

/** The reports of more runs than this are not fetched. */
const maxReports = 60;

/** The selected runs, or all runs of a trace: hit ratios, latencies, differences and request pairs. */
export const compareView: View = { name: "compare", title: "Compare", menuOrder: 2, show: showCompare };

/** Runs that are saved or removed meanwhile update the figures; the user's choices are kept. */
async function showCompare(context: ViewContext): Promise<void> {
  const { root, params, server, signal } = context;
  const requestedIds = (params.get("runs") ?? "").split(",").filter(Boolean);
  const trace = params.get("trace") ?? undefined;
  const isUnknown = (id: string) => !server.rows.some((row) => row.id === id);
  if (requestedIds.some(isUnknown)) await server.refresh();
  if (signal.aborted) return;
  const host = h("div");
  root.append(h("h1", {}, "Compare"), host);
  const reports = new Map<string, Promise<RunDetail>>();
  let shownVersion: string | undefined;
  let layout: { readonly key: string; show(selection: Selection, comparison: Comparison): void } | undefined;
  let drawing = new AbortController();
  const update = async () => {
    const selection = selectionOf(server.rows, requestedIds, trace);
    const version = versionOf(selection);
    if (version === shownVersion) return;
    shownVersion = version;
    const comparison = await comparisonOf(selection, reports, signal);
    if (signal.aborted || shownVersion !== version) return;
    const key = layoutKeyOf(comparison);
    if (key !== layout?.key) {
      drawing.abort();
      drawing = new AbortController();
      const inner = {
        ...context,
        root: host,
        params: readRoute().params,
        signal: AbortSignal.any([signal, drawing.signal]),
      };
      rebuild(host, () => {
        layout = { key, show: comparison.rows.length === 0 ? buildEmpty(inner) : buildFigures(inner, comparison) };
        layout.show(selection, comparison);
      });
    } else layout.show(selection, comparison);
  };
  await update();
  server.watch(() => void update(), signal);
}

/** The runs to compare, and the other choices that the view offers. */
interface Selection {
  readonly rows: readonly RunRow[];
  /** Bounds of the same trace that are not in `rows`. */
  readonly bounds: readonly RunRow[];
  /** Run ids of the URL; empty: all runs of `trace`. */
  readonly requestedIds: readonly string[];
  readonly trace: string | undefined;
  /** All traces with saved runs. */
  readonly traces: readonly string[];
}

function selectionOf(
  rows: readonly RunRow[],
  requestedIds: readonly string[],
  requestedTrace: string | undefined,
): Selection {
  const traces = [...new Set(rows.map(({ trace }) => trace))];
  const trace = requestedTrace ?? traces[0];
  const selected =
    requestedIds.length > 0
      ? rows.filter(({ id }) => requestedIds.includes(id))
      : rows.filter((row) => row.trace === trace);
  return { rows: selected, bounds: boundsOf(selected, rows), requestedIds, trace, traces };
}

/** Saved bounds of the same requests: the unlimited cache, and the offline optimum within the sizes of the selected runs. */
function boundsOf(selected: readonly RunRow[], rows: readonly RunRow[]): RunRow[] {
  const requestsOf = ({ trace, requests }: RunRow) => `${requests} ${trace}`;
  const [same, known] = [new Set(selected.map(requestsOf)), new Set(selected)];
  const isSame = (row: RunRow) => same.has(requestsOf(row));
  const sizes = selected.filter((row) => !isBound(row)).map(sizeOf);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const isWithin = (row: RunRow) => row.blocks === null || (sizeOf(row) >= least && sizeOf(row) <= most);
  const isOther = (row: RunRow) => row.target === "cache" && isBound(row) && !known.has(row);
  return rows.filter((row) => isOther(row) && isSame(row) && isWithin(row));
}

/** Differs if anything that is shown differs. */
const versionOf = ({ rows, bounds, traces }: Selection) =>
  [...[...rows, ...bounds].map(({ id, savedAtMs }) => `${id} ${savedAtMs}`), ...traces].join("\n");

/** Comparisons with equal keys have the same figures. */
const layoutKeyOf = (comparison: Comparison) =>
  [Math.min(2, comparison.rows.length), haveOneSize(comparison), comparison.rows.some(isTimed)].join();

function buildEmpty({ root }: ViewContext) {
  root.append(h("p", { class: "hint" }, "No runs to compare: ", h("a", { href: linkTo("runs") }, "select runs"), "."));
  return () => {};
}

/** Builds the figures of a layout, and returns the function that shows a comparison in them. */
function buildFigures(context: ViewContext, first: Comparison): (selection: Selection, comparison: Comparison) => void {
  const { root, params, signal } = context;
  let shown = first;
  let metric = params.get("metric") ?? "token";
  const metricOf = () => metric;
  const isOneSize = haveOneSize(first);
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
    location.hash = linkTo("compare", { trace: value, metric });
  };
  const selectionBar = h("div");
  const traceList = select("All runs of trace", [], "", goTo);
  root.append(h("div", { class: "bar" }, selectionBar, select("Hit ratio definition", metrics, metric, setMetric)));
  const timed = areTimed ? [latencyFigure(context), throughputFigure(signal)] : [];
  const limitNote = h("p", { class: "hint" });
  if (!areTimed || !isOneSize) root.append(capacity.element);
  if (areTimed) {
    const bars = h("div", {}, isOneSize && capacity.element, timed[1].element);
    root.append(h("div", { class: "grid" }, timed[0].element, bars), limitNote);
  }
  root.append(differences.element);
  const pairs = first.rows.length > 1 ? requestPairsFigure(context) : undefined;
  if (pairs) root.append(pairs.element);
  return ({ requestedIds, rows, trace = "", traces }, comparison) => {
    shown = comparison;
    if (requestedIds.length === 0) {
      setChoices(
        traceList,
        traces.map((value) => ({ value, label: value })),
        trace,
      );
      if (!traceList.isConnected) selectionBar.replaceChildren(traceList);
    } else selectionBar.replaceChildren(...selectionText(rows.length, requestedIds));
    capacity.show(comparison);
    differences.show(comparison);
    pairs?.show(comparison);
    const timedRows = comparison.rows.filter(isTimed);
    for (const figure of timed) figure.show({ ...comparison, rows: timedRows.slice(0, maxLatencyCurves) });
    limitNote.hidden = timedRows.length <= maxLatencyCurves;
    limitNote.textContent = `Latencies and throughput are shown for the first ${maxLatencyCurves} of ${timedRows.length} runs that have them.`;
  };
}

function selectionText(count: number, requestedIds: readonly string[]): Node[] {
  const missing = requestedIds.length - count;
  const link = h("a", { href: linkTo("runs", { runs: requestedIds.join(",") }) }, "change selection");
  const runs = count === 1 ? "1 selected run" : `${count} selected runs`;
  return [h("p", { class: "count" }, `${runs}${missing > 0 ? `, ${missing} not found` : ""} · `, link)];
}

/**
 * Labels and colours of the runs. Settings that the list of runs lacks (rules, seed) are taken from the reports, which are
 * fetched only if they are needed: to distinguish runs of one size, for timed runs, and to check the bounds.
 */
async function comparisonOf(
  { rows, bounds }: Selection,
  reports: Map<string, Promise<RunDetail>>,
  signal: AbortSignal,
): Promise<Comparison> {
  const reportOf = ({ id, savedAtMs }: RunRow) => {
    const key = `${id} ${savedAtMs}`;
    const known = reports.get(key) ?? getRun(id, signal);
    reports.set(key, known);
    known.catch(() => reports.delete(key));
    return known;
  };
  const all = [...rows, ...bounds];
  const areAmbiguous = haveSameLabels(all, labelsOf(all, new Map()));
  const reported = rows.some(isTimed) || areAmbiguous || bounds.length > 0 ? all : [];
  const areTooMany = reported.length > maxReports;
  const details = areTooMany ? [] : await Promise.allSettled(reported.map(reportOf));
  const facts = details.flatMap((each) =>
    each.status === "fulfilled" ? [[each.value.row.id, reportSettings(each.value.report)] as const] : [],
  );
  const known = new Map(facts);
  const valid = validBounds(rows, bounds, known);
  const labels = labelsOf([...rows, ...valid], known);
  const bandLabels = labelsOf([...rows, ...valid], withoutBandAxes(known));
  const sortedBy = (some: readonly RunRow[]) =>
    [...some].sort((a, b) => labels.get(a.id)!.localeCompare(labels.get(b.id)!) || sizeOf(a) - sizeOf(b));
  const sorted = sortedBy(rows);
  const online = sorted.filter((row) => !isBound(row));
  const bandColours = labelColours(online.map(({ id }) => bandLabels.get(id)!));
  const colours = new Map(online.map(({ id }) => [labels.get(id)!, bandColours.get(bandLabels.get(id)!)!]));
  return {
    rows: sorted,
    bounds: sortedBy(valid),
    areBoundsUnchecked: areTooMany && bounds.length > 0,
    labels,
    bandLabels,
    colours,
  };
}

/**
 * The bounds that are valid for all rows: with the same warm-up, and with the same rule `cache-generated`, as caching output
 * tokens raises the optimum. An unlimited cache that caches output tokens bounds every run. Of bounds with equal
 * values one is kept.
 */
function validBounds(
  rows: readonly RunRow[],
  bounds: readonly RunRow[],
  facts: ReadonlyMap<string, ReturnType<typeof reportSettings>>,
): RunRow[] {
  const of = (name: string, { id }: RunRow) => facts.get(id)?.[name];
  const areAll = (name: string, bound: RunRow) => rows.every((row) => of(name, row) === of(name, bound));
  const cachesAll = (bound: RunRow) => bound.blocks === null && of("cache-generated", bound) === "cache-generated true";
  const valid = bounds.filter(
    (bound) => facts.has(bound.id) && areAll("warmup", bound) && (cachesAll(bound) || areAll("cache-generated", bound)),
  );
  const valuesOf = ({ requests, blocks, hitRatio }: RunRow) => JSON.stringify([requests, blocks, hitRatio]);
  return [...new Map(valid.map((row) => [valuesOf(row), row])).values()];
}

/** Labels of runs; those of bounds begin with the kind of the bound. */
function labelsOf(rows: readonly RunRow[], facts: Parameters<typeof runLabels>[1]): Map<string, string> {
  const named = (some: readonly RunRow[], name: string): [string, string][] => {
    const labels = runLabels(some, facts, () => "");
    return some.map(({ id }) => [id, [name, labels.get(id)].filter(Boolean).join(" · ")]);
  };
  const isUnlimited = ({ blocks }: RunRow) => blocks === null;
  return new Map([
    ...runLabels(
      rows.filter((row) => !isBound(row)),
      facts,
    ),
    ...named(
      rows.filter((row) => isBound(row) && !isUnlimited(row)),
      "offline optimum",
    ),
    ...named(rows.filter(isUnlimited), "unlimited cache"),
  ]);
}

/** Settings without what policies leave open: the order of ties and the seed. */
const withoutBandAxes = (facts: Parameters<typeof runLabels>[1]): Parameters<typeof runLabels>[1] =>
  new Map([...facts].map(([id, { "free-order": _, seed: __, ...others }]) => [id, others]));

/** Whether two runs of one cache size have the same label. */
const haveSameLabels = (rows: readonly RunRow[], labels: ReadonlyMap<string, string>) =>
  new Set(rows.map((row) => `${labels.get(row.id)} ${row.capacityTokens}`)).size < rows.length;

const sizeOf = ({ capacityTokens }: RunRow) => capacityTokens ?? Number.POSITIVE_INFINITY;
