import type { RunRow } from "../../api.ts";
import { byLabel, type Compared, type ComparedFigure, colourOf, isBound, isTimed, nameOf } from "../compared.ts";
import type { Page } from "../page.ts";
import { linkTo, remember } from "../route.ts";
import { h, select, setChoices } from "./dom.ts";
import { approximate, change, integer, milliseconds, percent } from "./format.ts";
import { type Column, Table } from "./table.ts";

/** What a run is compared by. */
interface Measure {
  readonly name: string;
  readonly label: string;
  readonly moreIsBetter: boolean;
  of(row: RunRow): number | undefined;
  text(value: number): string;
  /** Of the value in CSV. */
  readonly unit?: string;
  /** A ratio differs by percentage points, all else by its share. */
  readonly inPoints?: boolean;
}

/** In the address, of a baseline that is not one run but those of a name, each at the size of the run beside it. */
const ofName = "of:";

const placeOf = ({ trace, requests, capacityTokens }: RunRow) => `${trace} ${requests} ${capacityTokens}`;

/** Every run, and how far it is from a chosen baseline: one run, or a policy's run of the same size. */
export function differencesTable(first: Compared, { params }: Page, metricOf: () => string): ComparedFigure {
  let compared = first;
  let wanted = params.get("base");
  const choicesOf = () => {
    const rank = (some: readonly RunRow[]) =>
      isBound(some[0]) ? 0 : some.length + (some[0].eviction === "lru" ? 0.5 : 0);
    const several = [...byLabel(compared)]
      .filter(([, some]) => some.length > 1)
      .sort(([, a], [, b]) => rank(b) - rank(a));
    return [
      ...several.map(([label]) => ({ value: `${ofName}${label}`, label: `${label}, of the same size` })),
      ...compared.rows.map(({ id }) => ({ value: id, label: nameOf(compared, id) })),
    ];
  };
  let base = "";
  let bases: ReadonlyMap<string, RunRow | undefined> = new Map();
  const baseOf = ({ id }: RunRow) => bases.get(id);
  /** Finds what each run is compared with. */
  const settle = () => {
    const { rows, labels } = compared;
    const choices = choicesOf();
    base = choices.find(({ value }) => value === wanted)?.value ?? choices[0].value;
    const one = rows.find(({ id }) => id === base);
    const isBase = ({ id }: RunRow) => `${ofName}${labels.get(id)}` === base;
    const same = new Map(rows.filter(isBase).map((row) => [placeOf(row), row]));
    bases = new Map(rows.map((row) => [row.id, one ?? same.get(placeOf(row))]));
    return choices;
  };
  const all: readonly Measure[] = [
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
      label: "Requests/s",
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
      label: "Latency p50",
      moreIsBetter: false,
      of: ({ latencyMsP50 }) => latencyMsP50,
      text: milliseconds,
      unit: "ms",
    },
  ];
  const measures = all.filter(({ name }) => name === "hits" || first.rows.some(isTimed));
  const table = new Table<RunRow>({
    title: "Differences from the baseline",
    columns: [
      { name: "run", label: "Run", value: ({ id }) => nameOf(compared, id), show: (row) => named(compared, row) },
      {
        name: "size",
        label: "Cache, tokens",
        value: ({ capacityTokens }) => capacityTokens ?? Number.POSITIVE_INFINITY,
        show: ({ capacityTokens }) => (capacityTokens === null ? "unlimited" : approximate(capacityTokens)),
      },
      ...measures.flatMap((measure) => columnsOf(measure, baseOf)),
      {
        name: "requests",
        label: "Requests",
        value: ({ requests }) => requests,
        show: ({ requests }) => integer(requests),
        wide: true,
      },
    ],
    sort: params.get("order") ?? "",
    onSort: (order) => remember({ order }),
    key: ({ id }) => id,
    rowClass: (row) => (row.id === baseOf(row)?.id ? "chosen" : ""),
  });
  const choose = (id: string) => {
    wanted = id;
    remember({ base: id });
    settle();
    table.show(compared.rows);
  };
  const list = select("Baseline", [], "", choose);
  const show = (now: Compared) => {
    compared = now;
    setChoices(list, settle(), base);
    table.show(compared.rows);
  };
  const head = h(
    "div",
    { class: "cardhead" },
    h("h2", {}, "Differences"),
    h("div", { class: "tools" }, list),
    table.csvButton(),
  );
  return { element: h("section", { class: "card" }, head, table.element), show };
}

function named(compared: Compared, row: RunRow): Node {
  const swatch = h("span", { class: "swatch" });
  swatch.style.background = colourOf(compared, row);
  return h("span", {}, swatch, h("a", { href: linkTo("run", { id: row.id }) }, nameOf(compared, row.id)));
}

/** The value, and its difference from the baseline's. */
function columnsOf(
  { name, label, moreIsBetter, of, text, unit, inPoints }: Measure,
  baseOf: (row: RunRow) => RunRow | undefined,
): Column<RunRow>[] {
  const difference = (row: RunRow) => {
    const against = baseOf(row);
    if (!against || row.id === against.id) return undefined;
    const [value, base] = [of(row), of(against)];
    if (value === undefined || base === undefined) return undefined;
    if (inPoints) return value - base;
    return base === 0 ? undefined : value / base - 1;
  };
  const shown = (row: RunRow) => {
    const value = difference(row);
    if (value === undefined) return "–";
    const words = inPoints ? `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(2)} points` : change(value);
    const isBetter = value > 0 === moreIsBetter;
    const isNothing = Math.abs(value) < (inPoints ? 5e-5 : 5e-4);
    return h("span", { class: isNothing ? undefined : isBetter ? "better" : "worse" }, words);
  };
  return [
    {
      name,
      label,
      saved: unit ? `${label}, ${unit}` : label,
      numeric: true,
      value: of,
      show: (row) => (of(row) === undefined ? "–" : text(of(row)!)),
    },
    {
      name: `${name}-change`,
      label: "against baseline",
      saved: `${label} against baseline`,
      numeric: true,
      value: difference,
      show: shown,
    },
  ];
}
