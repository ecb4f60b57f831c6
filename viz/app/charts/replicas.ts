import type { ReplicasData } from "../../api.ts";
import { h, segments } from "../controls/dom.ts";
import type { ClusterReport } from "../controls/run-tiles.ts";
import { type Column, Table } from "../controls/table.ts";
import { approximate, integer, milliseconds, percent, perSecond, roundPercent } from "../data/format.ts";
import type { Line, Point } from "../data/lines.ts";
import { getReplicas } from "../data/server.ts";
import { updateRoute } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { figure, onWidth } from "./figure.ts";
import { LineChart, type LineOptions } from "./line-chart.ts";
import { joinedSvg, type PanelContent, Panels } from "./panels.ts";

/** A result of a replica over time. */
interface Result {
  readonly name: string;
  readonly label: string;
  readonly axis: string;
  of(data: ReplicasData, replica: number): readonly (number | null)[] | undefined;
  text(value: number): string;
  tick(value: number): string;
  readonly max?: number;
}

const results: readonly Result[] = [
  {
    ...{ name: "hits", label: "Hit ratio", axis: "hit ratio, tokens", text: percent, tick: roundPercent, max: 1 },
    of: ({ replicas }, i) => replicas[i].hitRatios,
  },
  {
    ...{ name: "rate", label: "Throughput", axis: "finished, req/s", text: perSecond, tick: approximate },
    of: ({ replicas, startNs, endNs }, i) =>
      replicas[i].finished.map((count, at) => count / ((endNs[at] - startNs[at]) / 1e9)),
  },
  {
    ...{
      name: "busy",
      label: "Utilisation",
      axis: "share of time with a batch",
      text: percent,
      tick: roundPercent,
      max: 1,
    },
    of: ({ replicas }, i) => replicas[i].utilisation,
  },
];

/** More panels than this are too many to compare. */
const mostPanels = 16;

/** Each replica: a table of its totals, and one result over time. */
export function replicasFigure(id: string, cluster: ClusterReport, { params, signal }: ViewContext): HTMLElement {
  const { element, body, tools, note } = figure("Replicas", () => joinedSvg(panelHost));
  const [tableHost, panelHost] = [h("div"), h("div", { class: "replica-panels" })];
  body.append(panelHost, tableHost);
  const panels = new Panels(panelHost);
  let data: ReplicasData | undefined;
  let chosen = results.find(({ name }) => name === params.get("replicas")) ?? results[0];
  const draw = () => {
    if (!data) return;
    const shown = data;
    const contents = shown.replicas.slice(0, mostPanels).map((_, i) => panelOf(shown, i, chosen));
    panels.show(contents);
    const hasNone = shown.replicas.every((_, i) => chosen.of(shown, i) === undefined);
    const rest = shown.replicas.length - mostPanels;
    note(
      [
        hasNone && "The steps of the run were not saved, or are too many to show.",
        rest > 0 && `The first ${mostPanels} replicas are drawn; ${rest} are not.`,
      ]
        .filter(Boolean)
        .join(" "),
    );
  };
  const choose = (name: string) => {
    chosen = results.find((each) => each.name === name)!;
    updateRoute({ replicas: name === results[0].name ? undefined : name });
    draw();
  };
  const choices = results.map(({ name, label }) => ({ value: name, label }));
  tools.append(segments("Result", choices, chosen.name, choose));
  onWidth(body, signal, () => panels.draw());
  getReplicas(id, signal)
    .then((response) => {
      data = response;
      const table = replicaTable(response, cluster);
      tableHost.append(
        h("div", { class: "cardhead" }, h("h3", {}, "All replicas"), table.saveButtons()),
        table.element,
      );
      draw();
    })
    .catch((error) => !signal.aborted && note(error.message));
  return element;
}

interface LineData {
  readonly lines: readonly Line[];
  readonly options: LineOptions;
}

function panelOf(data: ReplicasData, i: number, result: Result): PanelContent<LineData> {
  const { startNs, endNs, replicas } = data;
  const values = replicas.map((_, each) => result.of(data, each) ?? []);
  const known = values.flat().filter((value) => value !== null);
  const title = `Replica ${replicas[i].replica}`;
  const points: Point[] = [];
  const breaks = new Set<number>();
  values[i].forEach((value, at) => {
    if (value === null) return;
    const [from, to] = [startNs[at] / 1e9, endNs[at] / 1e9];
    const text = `${result.text(value)}\n${approximate(from)} to ${approximate(to)} s`;
    if (typeof values[i][at - 1] !== "number") breaks.add(points.length);
    points.push({ x: from, y: value, text });
    // The step of the last interval before a gap extends to its end.
    if (typeof values[i][at + 1] !== "number") points.push({ x: to, y: value, text });
  });
  const lines: Line[] = [{ label: title, style: { colour: "var(--c0)", variant: 0 }, points, breaks, isStepped: true }];
  const extent = [(startNs[0] ?? 0) / 1e9, (endNs.at(-1) ?? 1e9) / 1e9] as const;
  return {
    ...{ title, kind: "replica" },
    create: (host) => {
      const chart = new LineChart(host, optionsOf(title, result, extent, known));
      return { update: (each) => chart.update(each.lines, each.options), draw: () => chart.draw() };
    },
    data: { lines: points.length > 0 ? lines : [], options: optionsOf(title, result, extent, known) },
  };
}

/** All panels have equal axes. */
function optionsOf(
  title: string,
  { axis, tick, max }: Result,
  extent: readonly [number, number],
  known: readonly number[],
): LineOptions {
  return {
    title: `${title}: ${axis}`,
    x: { label: "time, s", format: approximate, extent },
    y: {
      label: axis,
      fromZero: true,
      format: tick,
      ...(max === undefined ? { extent: [0, Math.max(...known, 0)] as const } : { max }),
    },
    ...{ marks: false, height: 210, hasLabels: false },
  };
}

type Row = ReplicasData["replicas"][number];

function replicaTable({ replicas }: ReplicasData, cluster: ClusterReport): Table<Row> {
  const number = (
    name: string,
    label: string,
    of: (row: Row) => number | null | undefined,
    text: (value: number) => string,
  ): Column<Row> => ({
    ...{ name, label, numeric: true, value: of },
    show: (row) => {
      const value = of(row);
      return value === null || value === undefined ? "–" : text(value);
    },
  });
  const latency = (name: string, label: string, of: (row: Row) => number | null): Column<Row> => ({
    ...number(name, label, of, milliseconds),
    csvLabel: `${label}, ms`,
  });
  const hasRoles = cluster.replicas.some(({ role }) => role !== undefined);
  const table = new Table<Row>({
    title: "All replicas",
    columns: [
      number("replica", "Replica", ({ replica }) => replica, String),
      ...(hasRoles
        ? [{ name: "role", label: "Role", value: ({ replica }: Row) => cluster.replicas[replica]?.role }]
        : []),
      number("requests", "Requests", ({ requests }) => requests, integer),
      number("hits", "Hit ratio, tokens", ({ hitRatio }) => hitRatio, percent),
      number("busy", "Utilisation", ({ replica }) => cluster.replicas[replica]?.utilisation, percent),
      number("steps", "Steps", ({ replica }) => cluster.replicas[replica]?.steps, integer),
      latency("ttft", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50),
      latency("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99),
    ],
    key: ({ replica }) => replica,
  });
  table.show(replicas);
  return table;
}
