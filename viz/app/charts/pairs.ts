import * as Plot from "@observablehq/plot";
import type { PairData, RunRow } from "../../api.ts";
import { type Compared, type ComparedFigure, isBound, isTimed, nameOf } from "../compared.ts";
import { h, select, setChoices } from "../controls/dom.ts";
import { approximate, integer, latencies, milliseconds, tickMs } from "../controls/format.ts";
import { Table } from "../controls/table.ts";
import type { Page } from "../page.ts";
import { linkTo, remember } from "../route.ts";
import { getPairs } from "../server.ts";
import { figure, onWidth } from "./figure.ts";
import { drawPlot } from "./plot.ts";

interface Pair {
  readonly request: number;
  readonly a: number;
  readonly b: number;
}

/** How many of the requests that differ most are listed. */
const listed = 12;

/** The same requests in two runs: a point each, those that differ most by name. */
export function pairsFigure({ params, left }: Page): ComparedFigure {
  const { element, body, tools, note } = figure("Request by request");
  const wanted = { a: params.get("a"), b: params.get("b"), metric: params.get("pair") };
  let compared: Compared | undefined;
  let drawn: { readonly pairs: PairData; readonly chosen: Chosen } | undefined;
  let asked = "";
  const most = h("div");
  const parting = h("a", { class: "button" }, "Where do they part?");
  const draw = () => drawn && body.clientWidth > 0 && scatter(body, body.clientWidth, drawn.pairs, drawn.chosen);
  const load = async (chosen: Chosen) => {
    const { a, b, metric } = chosen;
    parting.href = linkTo("travel", { id: a.id, with: b.id });
    try {
      const pairs = await getPairs(a.id, b.id, metric, left);
      if (asked !== keyOf(chosen)) return;
      drawn = { pairs, chosen };
      const { total, request } = pairs;
      note(
        `${integer(total)} requests are in both runs; drawn are the ${integer(request.length)} that differ most. ` +
          "On the line both are equal.",
      );
      const table = mostDifferent(pairs, chosen);
      most.replaceChildren(
        h("div", { class: "cardhead" }, h("h3", {}, "Those that differ most"), table.csvButton()),
        table.element,
      );
      draw();
    } catch (error) {
      if (!left.aborted && asked === keyOf(chosen)) note((error as Error).message);
    }
  };
  const lists = (["a", "b"] as const).map((key) =>
    select(key === "a" ? "Across" : "Up", [], "", (value) => {
      wanted[key] = value;
      remember({ [key]: value });
      update();
    }),
  );
  const metrics = select("What", [], "", (value) => {
    wanted.metric = value;
    remember({ pair: value });
    update();
  });
  const update = () => {
    if (!compared) return;
    const chosen = chosenOf(compared, wanted);
    const choices = compared.rows.map(({ id }) => ({ value: id, label: nameOf(compared!, id) }));
    setChoices(lists[0], choices, chosen.a.id);
    setChoices(lists[1], choices, chosen.b.id);
    const labelled = chosen.metrics.map((value) => ({ value, label: latencies[value] ?? "cached tokens" }));
    setChoices(metrics, labelled, chosen.metric);
    if (asked === keyOf(chosen)) return;
    asked = keyOf(chosen);
    void load(chosen);
  };
  const show = (now: Compared) => {
    compared = now;
    update();
  };
  tools.append(...lists, metrics, parting);
  onWidth(body, left, draw);
  const pair = h("div", { class: "pair" });
  body.replaceWith(pair);
  pair.append(body, most);
  return { element, show };
}

/** Two runs, and what of their requests is compared. */
interface Chosen {
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

const keyOf = ({ a, b, metric }: Chosen) => [a, b].map((side) => Object.values(side).join()).join("\n") + metric;

type Wanted = Readonly<Record<"a" | "b" | "metric", string | null>>;

/** What was wished, where it is there; else the first two that are no bounds, of one size if there are such. */
function chosenOf(compared: Compared, wanted: Wanted): Chosen {
  const { rows } = compared;
  const comparable = rows.filter((row) => row.trace === rows[0].trace);
  const free = comparable.filter((row) => !isBound(row));
  const [first, second] = free.length > 1 ? [free[0], sameSize(free)] : comparable;
  const side = (id: string | null, otherwise: RunRow | undefined): Side => {
    const row = rows.find((each) => each.id === id) ?? otherwise ?? rows[0];
    return { id: row.id, savedAtMs: row.savedAtMs, name: nameOf(compared, row.id) };
  };
  const [a, b] = [side(wanted.a, first), side(wanted.b, second)];
  const areTimed = [a, b].every(({ id }) => rows.some((row) => row.id === id && isTimed(row)));
  const metrics = areTimed ? ["hitTokens", ...Object.keys(latencies)] : ["hitTokens"];
  return { a, b, metrics, metric: metrics.find((each) => each === wanted.metric) ?? metrics[0] };
}

const textOf = (metric: string) => (metric === "hitTokens" ? integer : milliseconds);

function mostDifferent({ metric, request, a, b }: PairData, chosen: Chosen): Table<Pair> {
  const text = textOf(metric);
  const table = new Table<Pair>({
    title: "Requests that differ most",
    columns: [
      { name: "request", label: "Request", value: (each) => each.request, show: (each) => `#${each.request}` },
      { name: "a", label: chosen.a.name, value: (each) => each.a, show: (each) => text(each.a) },
      { name: "b", label: chosen.b.name, value: (each) => each.b, show: (each) => text(each.b) },
      {
        name: "difference",
        label: "Difference",
        value: (each) => each.b - each.a,
        show: (each) => signed(each.b - each.a, text),
      },
    ],
  });
  table.show(request.slice(0, listed).map((each, i) => ({ request: each, a: a[i], b: b[i] })));
  return table;
}

/** Another policy of the first one's size, if there is one. */
const sameSize = ([first, ...others]: Compared["rows"]) =>
  others.find((row) => row.capacityTokens === first.capacityTokens) ?? others[0];

const signed = (value: number, text: (value: number) => string) =>
  `${value < 0 ? "−" : value > 0 ? "+" : ""}${text(Math.abs(value))}`;

function scatter(body: HTMLElement, width: number, { metric, request, a, b }: PairData, chosen: Chosen): void {
  const [across, up, text] = [chosen.a.name, chosen.b.name, textOf(metric)];
  const isTime = metric !== "hitTokens";
  const points = request.map((each, i) => ({ request: each, a: a[i], b: b[i] }));
  const most = Math.max(1, ...a, ...b);
  const positive = [...a, ...b].filter((value) => value > 0);
  const least = isTime && positive.length > 0 ? Math.min(...positive) : 0;
  const axis = isTime
    ? { type: "log" as const, domain: [least, most], tickFormat: tickMs, ticks: 4 }
    : { domain: [0, most], tickFormat: (value: number) => approximate(value), ticks: 5 };
  const unit = isTime ? latencies[metric] : "cached tokens";
  drawPlot(body, {
    width,
    height: Math.min(width, 460),
    marginLeft: 66,
    marginBottom: 44,
    x: { ...axis, label: `${unit}: ${across}`, grid: true, labelAnchor: "right" },
    y: { ...axis, label: `${unit}: ${up}`, grid: true },
    ariaLabel: `${unit} of the same requests: ${across} across, ${up} up; ${points.length} points`,
    marks: [
      Plot.line(
        [
          [least, least],
          [most, most],
        ],
        { stroke: "var(--bound)", strokeDasharray: "4 4" },
      ),
      Plot.dot(points, { x: "a", y: "b", r: 2.6, fill: "var(--c0)", fillOpacity: 0.45 }),
      Plot.dot(points.slice(0, listed), { x: "a", y: "b", r: 4.5, stroke: "var(--c1)", strokeWidth: 1.8 }),
      Plot.tip(
        points,
        Plot.pointer({
          x: "a",
          y: "b",
          title: (each: Pair) => `request #${each.request}\n${across}: ${text(each.a)}\n${up}: ${text(each.b)}`,
        }),
      ),
    ],
  });
}
