import * as Plot from "@observablehq/plot";
import type { PairData } from "../api.ts";
import { type Compared, isBound, isTimed, nameOf } from "./compared.ts";
import { h, select } from "./dom.ts";
import { figure, onWidth } from "./figure.ts";
import { approximate, integer, latencies, milliseconds, tickMs } from "./format.ts";
import type { Page } from "./page.ts";
import { drawPlot } from "./plot.ts";
import { linkTo, remember } from "./route.ts";
import { getPairs } from "./server.ts";
import { Table } from "./table.ts";

interface Pair {
  readonly request: number;
  readonly a: number;
  readonly b: number;
}

/** How many of the requests that differ most are listed. */
const listed = 12;

/** The same requests in two runs: a point each, those that differ most by name. */
export function pairsFigure(compared: Compared, { params, left }: Page): HTMLElement {
  const { rows } = compared;
  const comparable = rows.filter((row) => row.trace === rows[0].trace);
  const free = comparable.filter((row) => !isBound(row));
  const [first, second] = free.length > 1 ? [free[0], sameSize(free)] : comparable;
  const id = (name: string, otherwise: string | undefined) =>
    rows.find((row) => row.id === params.get(name))?.id ?? otherwise ?? rows[0].id;
  const metrics = rows.every(isTimed) ? ["hitTokens", ...Object.keys(latencies)] : ["hitTokens"];
  const state = { a: id("a", first?.id), b: id("b", second?.id), metric: params.get("pair") ?? metrics[0] };
  const { element, body, tools, note } = figure("Request by request");
  const name = (run: string) => nameOf(compared, run);
  let pairs: PairData | undefined;
  const text = (value: number) => (state.metric === "hitTokens" ? integer(value) : milliseconds(value));
  const most = h("div");
  const tableOf = () =>
    new Table<Pair>({
      title: "Requests that differ most",
      columns: [
        { name: "request", label: "Request", value: ({ request }) => request, show: ({ request }) => `#${request}` },
        { name: "a", label: name(state.a), value: ({ a }) => a, show: ({ a }) => text(a) },
        { name: "b", label: name(state.b), value: ({ b }) => b, show: ({ b }) => text(b) },
        {
          name: "difference",
          label: "Difference",
          value: ({ a, b }) => b - a,
          show: ({ a, b }) => signed(b - a, text),
        },
      ],
    });
  const draw = (width: number) => {
    if (!pairs) return;
    scatter(body, pairs, width, name(state.a), name(state.b), text);
  };
  const parting = h("a", { class: "button" }, "Where do they part?");
  const load = async () => {
    parting.href = linkTo("travel", { id: state.a, with: state.b });
    try {
      pairs = await getPairs(state.a, state.b, state.metric, left);
      const { total, request, a, b } = pairs;
      note(
        `${integer(total)} requests are in both runs; drawn are the ${integer(request.length)} that differ most. ` +
          "On the line both are equal.",
      );
      const table = tableOf();
      table.show(request.slice(0, listed).map((each, i) => ({ request: each, a: a[i], b: b[i] })));
      most.replaceChildren(
        h("div", { class: "cardhead" }, h("h3", {}, "Those that differ most"), table.csvButton()),
        table.element,
      );
      draw(body.clientWidth);
    } catch (error) {
      if (!left.aborted) note((error as Error).message);
    }
  };
  const choices = rows.map((row) => ({ value: row.id, label: name(row.id) }));
  const set = (key: "a" | "b" | "metric", parameter: string) => (value: string) => {
    state[key] = value;
    remember({ [parameter]: value });
    void load();
  };
  tools.append(
    select("Across", choices, state.a, set("a", "a")),
    select("Up", choices, state.b, set("b", "b")),
    select(
      "What",
      metrics.map((value) => ({ value, label: latencies[value] ?? "cached tokens" })),
      state.metric,
      set("metric", "pair"),
    ),
    parting,
  );
  onWidth(body, left, draw);
  void load();
  const pair = h("div", { class: "pair" });
  body.replaceWith(pair);
  pair.append(body, most);
  return element;
}

/** Another policy of the first one's size, if there is one. */
const sameSize = ([first, ...others]: Compared["rows"]) =>
  others.find((row) => row.capacityTokens === first.capacityTokens) ?? others[0];

const signed = (value: number, text: (value: number) => string) =>
  `${value < 0 ? "−" : value > 0 ? "+" : ""}${text(Math.abs(value))}`;

function scatter(
  body: HTMLElement,
  { metric, request, a, b }: PairData,
  width: number,
  across: string,
  up: string,
  text: (value: number) => string,
) {
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
