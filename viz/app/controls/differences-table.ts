import type { RunRow } from "../../api.ts";
import type { ComparisonFigure } from "../charts/comparison-figure.ts";
import { baselineOf } from "../data/baseline.ts";
import { type Comparison, isTimed, nameOf, styleOf } from "../data/comparison.ts";
import { approximate, change, integer, milliseconds, percent, points } from "../data/format.ts";
import { linkTo, updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { h, select, setChoices } from "./dom.ts";
import { type Column, Table } from "./table.ts";

/** A metric that runs are compared by. */
interface Metric {
  readonly name: string;
  readonly label: string;
  readonly moreIsBetter: boolean;
  of(row: RunRow): number | undefined;
  text(value: number): string;
  /** Unit of the value in CSV. */
  readonly unit?: string;
  /** Whether the difference is in percentage points; otherwise it is relative. */
  readonly inPoints?: boolean;
}

/** All runs with their differences from a baseline: one run, or the run of a policy at the same cache size. */
export function differencesTable(first: Comparison, { params }: ViewContext, metricOf: () => string): ComparisonFigure {
  let comparison = first;
  let requestedBase = params.get("base");
  let baseline = baselineOf(first, requestedBase);
  const baseOf = (row: RunRow) => baseline.of(row);
  const all: readonly Metric[] = [
    {
      name: "hits",
      label: "Hit ratio",
      moreIsBetter: true,
      of: ({ hitRatio }) => hitRatio[metricOf()],
      text: percent,
      inPoints: true,
    },
    {
      name: "rate",
      label: "Throughput, req/s",
      moreIsBetter: true,
      of: ({ requestsPerS }) => requestsPerS,
      text: (rate) => rate.toFixed(2),
    },
    {
      name: "ttft",
      label: "TTFT p50",
      moreIsBetter: false,
      of: ({ ttftMsP50 }) => ttftMsP50,
      text: milliseconds,
      unit: "ms",
    },
    {
      name: "ttft99",
      label: "TTFT p99",
      moreIsBetter: false,
      of: ({ ttftMsP99 }) => ttftMsP99,
      text: milliseconds,
      unit: "ms",
    },
    {
      name: "latency",
      label: "End-to-end latency p50",
      moreIsBetter: false,
      of: ({ latencyMsP50 }) => latencyMsP50,
      text: milliseconds,
      unit: "ms",
    },
  ];
  const metrics = all.filter(({ name }) => name === "hits" || first.rows.some(isTimed));
  const table = new Table<RunRow>({
    title: "Differences from the baseline",
    columns: [
      { name: "run", label: "Run", value: ({ id }) => nameOf(comparison, id), show: (row) => runCell(comparison, row) },
      {
        name: "size",
        label: "Cache size, tokens",
        value: ({ capacityTokens }) => capacityTokens ?? Number.POSITIVE_INFINITY,
        show: ({ capacityTokens }) => (capacityTokens === null ? "unlimited" : approximate(capacityTokens)),
      },
      ...metrics.flatMap((metric) => columnsOf(metric, baseOf)),
      ...gapColumn(first, metricOf),
      {
        name: "requests",
        label: "Requests",
        value: ({ requests }) => requests,
        show: ({ requests }) => integer(requests),
        wide: true,
      },
      ...refusedColumn(first),
    ],
    sort: params.get("order") ?? "",
    onSort: (order) => updateRoute({ order }),
    key: ({ id }) => id,
    rowClass: (row) => (row.id === baseOf(row)?.id ? "selected" : ""),
  });
  const listed = () => [...comparison.rows, ...comparison.interrupted];
  const setBase = (id: string) => {
    requestedBase = id;
    updateRoute({ base: id });
    baseline = baselineOf(comparison, requestedBase);
    table.show(listed());
  };
  const list = select("Baseline", [], "", setBase);
  const show = (latest: Comparison) => {
    comparison = latest;
    baseline = baselineOf(comparison, requestedBase);
    setChoices(list, baseline.choices, baseline.value);
    table.show(listed());
  };
  const head = h(
    "div",
    { class: "cardhead" },
    h("h2", {}, "Differences"),
    h("div", { class: "tools" }, list),
    table.saveButtons(),
  );
  return { element: h("section", { class: "card" }, head, table.element), show };
}

/** The share of the gap between lru and the proven bound that the policy closes, if a run has it. */
const gapColumn = ({ rows }: Comparison, metricOf: () => string): Column<RunRow>[] =>
  rows.some(({ gapClosed }) => gapClosed !== undefined)
    ? [
        {
          name: "gap",
          label: "Gap closed",
          csvLabel: "Gap between lru and the bound closed",
          value: ({ gapClosed }) => gapClosed?.[metricOf()],
          show: ({ gapClosed }) => share(gapClosed?.[metricOf()]),
          numeric: true,
        },
      ]
    : [];

const share = (value: number | null | undefined): string =>
  value === undefined || value === null ? "–" : percent(value);

/** Refused requests, if a run has any. */
const refusedColumn = ({ rows }: Comparison): Column<RunRow>[] =>
  rows.some(({ refused }) => refused !== undefined)
    ? [
        {
          name: "refused",
          label: "Refused",
          value: ({ refused }) => refused ?? 0,
          show: ({ refused }) => integer(refused ?? 0),
          numeric: true,
        },
      ]
    : [];

function runCell(comparison: Comparison, row: RunRow): Node {
  const swatch = h("span", { class: "swatch" });
  swatch.style.background = styleOf(comparison, row).colour;
  return h("span", {}, swatch, h("a", { href: linkTo("run", { id: row.id }) }, nameOf(comparison, row.id)));
}

/** Two columns: the value, and its difference from the baseline. */
function columnsOf(
  { name, label, moreIsBetter, of, text: format, unit, inPoints }: Metric,
  baseOf: (row: RunRow) => RunRow | undefined,
): Column<RunRow>[] {
  const difference = (row: RunRow) => {
    const baseRow = baseOf(row);
    if (!baseRow || row.id === baseRow.id) return undefined;
    const [value, base] = [of(row), of(baseRow)];
    if (value === undefined || base === undefined) return undefined;
    if (inPoints) return value - base;
    return base === 0 ? undefined : value / base - 1;
  };
  const differenceCell = (row: RunRow) => {
    const value = difference(row);
    if (value === undefined) return "–";
    const text = inPoints ? points(value) : change(value);
    const isBetter = value > 0 === moreIsBetter;
    // Latency and throughput are those of the requests that were served.
    const isComparable = inPoints || (row.refused === undefined && baseOf(row)?.refused === undefined);
    const isNegligible = Math.abs(value) < (inPoints ? 5e-5 : 5e-4);
    return h("span", { class: isNegligible || !isComparable ? undefined : isBetter ? "better" : "worse" }, text);
  };
  return [
    {
      name,
      label,
      csvLabel: unit ? `${label}, ${unit}` : label,
      numeric: true,
      value: of,
      show: (row) => (of(row) === undefined ? "–" : format(of(row)!)),
    },
    {
      name: `${name}-change`,
      label: "vs. baseline",
      csvLabel: `${label} vs. baseline`,
      numeric: true,
      value: difference,
      show: differenceCell,
    },
  ];
}
