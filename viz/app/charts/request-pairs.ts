import * as Plot from "@observablehq/plot";
import type { PairData, RunRow } from "../../api.ts";
import { h, select, setChoices } from "../controls/dom.ts";
import { Table } from "../controls/table.ts";
import { type Comparison, isBound, isTimed, nameOf } from "../data/comparison.ts";
import { approximate, integer, latencies, milliseconds, tickMs } from "../data/format.ts";
import { getPairs } from "../data/server.ts";
import { linkTo, updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import type { ComparisonFigure } from "./comparison-figure.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot, type PlotWithLabel } from "./plot.ts";

interface RequestValues {
  readonly request: number;
  readonly a: number;
  readonly b: number;
}

/** Requests in the table: those with the largest differences. */
const listedCount = 12;

/** The same requests in two runs: a scatter plot, and a table of the largest differences. */
export function requestPairsFigure({ params, signal }: ViewContext): ComparisonFigure {
  const { element, body, tools, note } = figure("Request pairs");
  const requested = { a: params.get("a"), b: params.get("b"), metric: params.get("pair") };
  let comparison: Comparison | undefined;
  let shown: { readonly pairs: PairData; readonly pair: Pair } | undefined;
  let requestedKey = "";
  const tableHost = h("div");
  const divergenceLink = h("a", { class: "button" }, "Find the first divergence");
  const draw = () => shown && body.clientWidth > 0 && scatter(body, body.clientWidth, shown.pairs, shown.pair);
  const load = async (pair: Pair) => {
    const { a, b, metric } = pair;
    divergenceLink.href = linkTo("travel", { id: a.id, with: b.id });
    try {
      const pairs = await getPairs(a.id, b.id, metric, signal);
      if (requestedKey !== keyOf(pair)) return;
      shown = { pairs, pair };
      const { total, request } = pairs;
      note(
        `${integer(total)} requests are in both runs; the ${integer(request.length)} with the largest differences are shown. ` +
          "On the dashed diagonal both runs have equal values. A click on a point opens the history of its request.",
      );
      const table = differencesTable(pairs, pair);
      tableHost.replaceChildren(
        h("div", { class: "cardhead" }, h("h3", {}, "Requests that differ most"), table.saveButtons()),
        table.element,
      );
      draw();
    } catch (error) {
      if (!signal.aborted && requestedKey === keyOf(pair)) note((error as Error).message);
    }
  };
  const lists = (["a", "b"] as const).map((key) =>
    select(key === "a" ? "x axis" : "y axis", [], "", (value) => {
      requested[key] = value;
      updateRoute({ [key]: value });
      update();
    }),
  );
  const metrics = select("Metric", [], "", (value) => {
    requested.metric = value;
    updateRoute({ pair: value });
    update();
  });
  const update = () => {
    if (!comparison) return;
    const pair = pairOf(comparison, requested);
    const choices = comparison.rows.map(({ id }) => ({ value: id, label: nameOf(comparison!, id) }));
    setChoices(lists[0], choices, pair.a.id);
    setChoices(lists[1], choices, pair.b.id);
    const labelled = pair.metrics.map((value) => ({ value, label: latencies[value] ?? "cached tokens" }));
    setChoices(metrics, labelled, pair.metric);
    if (requestedKey === keyOf(pair)) return;
    requestedKey = keyOf(pair);
    void load(pair);
  };
  const show = (latest: Comparison) => {
    comparison = latest;
    update();
  };
  tools.append(...lists, metrics, divergenceLink);
  onWidth(body, signal, draw);
  const columns = h("div", { class: "pair" });
  body.replaceWith(columns);
  columns.append(body, tableHost);
  return { element, show };
}

/** Two runs and the metric to compare. */
interface Pair {
  readonly a: Side;
  readonly b: Side;
  readonly metric: string;
  readonly metrics: readonly string[];
}

interface Side {
  readonly id: string;
  readonly savedAtMs: number;
  readonly name: string;
}

const keyOf = ({ a, b, metric }: Pair) => [a, b].map((side) => Object.values(side).join()).join("\n") + metric;

type RequestedPair = Readonly<Record<"a" | "b" | "metric", string | null>>;

/** The requested runs, if they are in the comparison; otherwise the first two that are not bounds, of equal size if possible. */
function pairOf(comparison: Comparison, requested: RequestedPair): Pair {
  const { rows } = comparison;
  const comparable = rows.filter((row) => row.trace === rows[0].trace);
  const policies = comparable.filter((row) => !isBound(row));
  const [first, second] = policies.length > 1 ? [policies[0], sameSize(policies)] : comparable;
  const side = (id: string | null, fallback: RunRow | undefined): Side => {
    const row = rows.find((each) => each.id === id) ?? fallback ?? rows[0];
    return { id: row.id, savedAtMs: row.savedAtMs, name: nameOf(comparison, row.id) };
  };
  const [a, b] = [side(requested.a, first), side(requested.b, second)];
  const areTimed = [a, b].every(({ id }) => rows.some((row) => row.id === id && isTimed(row)));
  const metrics = areTimed ? ["hitTokens", ...Object.keys(latencies)] : ["hitTokens"];
  return { a, b, metrics, metric: metrics.find((each) => each === requested.metric) ?? metrics[0] };
}

/** The history of a request in both runs. */
const historyLink = ({ a, b }: Pair, request: number) => linkTo("request", { id: a.id, with: b.id, request });

const textOf = (metric: string) => (metric === "hitTokens" ? integer : milliseconds);

function differencesTable({ metric, request, a, b }: PairData, pair: Pair): Table<RequestValues> {
  const text = textOf(metric);
  const table = new Table<RequestValues>({
    title: "Requests that differ most",
    columns: [
      {
        ...{ name: "request", label: "Request", value: (each: RequestValues) => each.request },
        show: ({ request: each }) => h("a", { href: historyLink(pair, each) }, `#${each}`),
      },
      { name: "a", label: pair.a.name, value: (each) => each.a, show: (each) => text(each.a) },
      { name: "b", label: pair.b.name, value: (each) => each.b, show: (each) => text(each.b) },
      {
        name: "difference",
        label: "Difference",
        value: (each) => each.b - each.a,
        show: (each) => signed(each.b - each.a, text),
      },
    ],
  });
  table.show(request.slice(0, listedCount).map((each, i) => ({ request: each, a: a[i], b: b[i] })));
  return table;
}

/** Another run of the size of the first, if there is one; otherwise the second. */
const sameSize = ([first, ...others]: Comparison["rows"]) =>
  others.find((row) => row.capacityTokens === first.capacityTokens) ?? others[0];

const signed = (value: number, text: (value: number) => string) =>
  `${value < 0 ? "−" : value > 0 ? "+" : ""}${text(Math.abs(value))}`;

function scatter(body: HTMLElement, width: number, { metric, request, a, b }: PairData, pair: Pair): void {
  const [xName, yName, text] = [pair.a.name, pair.b.name, textOf(metric)];
  const isTime = metric !== "hitTokens";
  const points = request.map((each, i) => ({ request: each, a: a[i], b: b[i] }));
  const max = Math.max(1, ...a, ...b);
  const positive = [...a, ...b].filter((value) => value > 0);
  const min = isTime && positive.length > 0 ? Math.min(...positive) : 0;
  const axis = isTime
    ? { type: "log" as const, domain: [min, max], tickFormat: tickMs, ticks: 4 }
    : { domain: [0, max], tickFormat: (value: number) => approximate(value), ticks: 5 };
  const unit = isTime ? latencies[metric] : "cached tokens";
  const options: PlotWithLabel = {
    width,
    height: Math.min(width, 460),
    marginLeft: 66,
    marginBottom: 44,
    x: { ...axis, label: `${unit}: ${xName}`, grid: true, labelAnchor: "right" },
    y: { ...axis, label: `${unit}: ${yName}`, grid: true },
    ariaLabel: `${unit} of the same requests: ${xName} on the x axis, ${yName} on the y axis; ${points.length} points`,
    marks: [
      Plot.line(
        [
          [min, min],
          [max, max],
        ],
        { stroke: "var(--bound)", strokeDasharray: "4 4" },
      ),
      Plot.dot(points, { x: "a", y: "b", r: 2.6, fill: "var(--c0)", fillOpacity: 0.45 }),
      Plot.dot(points.slice(0, listedCount), { x: "a", y: "b", r: 4.5, stroke: "var(--c1)", strokeWidth: 1.8 }),
      Plot.tip(
        points,
        Plot.pointer({
          x: "a",
          y: "b",
          title: (each: RequestValues) =>
            `request #${each.request}\n${xName}: ${text(each.a)}\n${yName}: ${text(each.b)}`,
        }),
      ),
    ],
  };
  drawPlot<RequestValues>(body, options, (each) => {
    location.hash = historyLink(pair, each.request);
  });
}
