import type { SizeDetail, SizesList } from "../../api.ts";
import { figure, onWidth } from "../charts/figure.ts";
import { LineChart, type LineOptions } from "../charts/line-chart.ts";
import { h, select } from "../controls/dom.ts";
import { type Column, Table } from "../controls/table.ts";
import { integer, milliseconds, percent, perSecond, roundPercent, tickMs } from "../data/format.ts";
import type { Line } from "../data/lines.ts";
import { boundStyle, type SeriesStyle } from "../data/series-style.ts";
import { get } from "../data/server.ts";
import { updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

type Cluster = SizeDetail["clusters"][number];

/** The answers that `kvlab size --out` saved in the folder of runs. */
export const sizesView: View = { name: "sizes", title: "Sizing", menuOrder: 4, show: showSizes };

async function showSizes({ root, params, signal }: ViewContext): Promise<void> {
  root.append(h("h1", {}, "Sizing"));
  const { sizes: saved } = await get<SizesList>("api/sizes", signal);
  if (signal.aborted) return;
  if (saved.length === 0) {
    const command = h("code", {}, "kvlab size --slo ttft=500ms:p99 --out runs/size");
    root.append(h("p", { class: "hint" }, "There are no saved answers. ", command, " saves one."));
    return;
  }
  const requested = params.get("id");
  let id = saved.some((row) => row.id === requested) ? requested! : saved[0].id;
  const answer = h("p", {});
  const { element, body, note } = figure("Clusters by cost");
  const chart = new LineChart(body, optionsOf(undefined));
  onWidth(body, signal, () => chart.draw());
  const tables = h("div", {});
  const load = async () => {
    const wanted = id;
    const shown = await get<SizeDetail>(`api/sizes/${encodeURIComponent(wanted)}`, signal);
    if (signal.aborted || wanted !== id) return;
    answer.replaceChildren(answerText(shown));
    note(noteOf(shown));
    chart.update(linesOf(shown), optionsOf(shown));
    const own = new Table<Cluster>({
      ...{ title: "Simulated clusters", columns: columnsOf(shown), sort: "cost" },
      rowClass: ({ chosen }) => (chosen ? "selected" : ""),
    });
    own.show(shown.clusters);
    tables.replaceChildren(own.saveButtons(), own.element);
  };
  const all = saved.map((row) => ({
    value: row.id,
    label: `${row.id}: ${row.trace}, ${integer(row.requests)} requests, ${row.model}`,
  }));
  const choose = (value: string) => {
    id = value;
    updateRoute({ id });
    void load();
  };
  await load();
  if (signal.aborted) return;
  root.append(h("div", { class: "bar" }, select("Saved answer", all, id, choose)), answer, element, tables);
}

const metricNames = { ttftMs: "TTFT", tpotMs: "TPOT", e2eMs: "latency" } as const;
type Objective = Cluster["objectives"][number];
const nameOf = ({ metric, percentile }: Objective) => `P${percentile} ${metricNames[metric]}`;
const valueText = ({ valueMs }: Objective) => (valueMs === null ? "unlimited" : milliseconds(valueMs));

const clusterText = ({ gpus, gpu, tensorParallel, preset, eviction, router }: Cluster) =>
  [
    `${gpus} × ${gpu}${tensorParallel > 1 ? ` with TP ${tensorParallel}` : ""}`,
    preset,
    eviction,
    ...(router === null ? [] : [`router ${router}`]),
  ].join(", ");

const costText = (cost: number, currency: string) => `${cost.toFixed(2)} ${currency} per hour`;

function answerText({ clusters, currency }: SizeDetail): string {
  const chosen = clusters.find((each) => each.chosen);
  if (!chosen) return "No simulated cluster meets the SLO.";
  const limits = chosen.objectives.map((each) => `${nameOf(each)} ${valueText(each)} of ${milliseconds(each.limitMs)}`);
  return `Cheapest cluster that meets the SLO: ${clusterText(chosen)}, for ${costText(chosen.costPerHour, currency)}. ${limits.join(", ")}.`;
}

function noteOf({ clusters, arePricesAssumed }: SizeDetail): string {
  const over = clusters.filter(
    ({ objectives: [one] }) => (one?.valueMs ?? 0) > mostLimits * (one?.limitMs ?? 0),
  ).length;
  return [
    `${integer(clusters.length)} simulated clusters.`,
    ...(over > 0 ? [`${integer(over)} of them exceed ${mostLimits} times the limit and are drawn at the top.`] : []),
    ...(arePricesAssumed ? ["The prices are assumptions."] : []),
  ].join(" ");
}

/** Axes of the first metric with a limit. */
function optionsOf(shown: SizeDetail | undefined): LineOptions {
  const [objective] = shown?.clusters[0]?.objectives ?? [];
  const metric = objective ? nameOf(objective) : "";
  return {
    title: `${metric} by cost`,
    x: { label: `cost, ${shown?.currency ?? ""} per hour`, fromZero: true, format: (cost) => String(cost) },
    y: { label: `${metric} (logarithmic)`, log: true, format: tickMs },
    marks: true,
  };
}

const styles: Readonly<Record<string, SeriesStyle>> = {
  missed: { colour: "var(--c1)", variant: 4 },
  met: { colour: "var(--c0)", variant: 0 },
  chosen: { colour: "var(--c2)", variant: 5 },
};

/** A larger value is drawn as this multiple of its limit: overloaded clusters would compress the others. */
const mostLimits = 100;

/** The clusters that meet the SLO and those that miss it as separate points, the chosen one, and the limit. */
function linesOf({ clusters, currency }: SizeDetail): Line[] {
  const limitMs = clusters[0]?.objectives[0]?.limitMs;
  if (limitMs === undefined) return [];
  const line = (label: string, style: SeriesStyle, which: (cluster: Cluster) => boolean): Line[] => {
    const points = clusters.filter(which).map((cluster) => ({
      x: cluster.costPerHour,
      y: Math.min(mostLimits * limitMs, cluster.objectives[0].valueMs ?? Number.POSITIVE_INFINITY),
      text: tooltip(cluster, currency),
    }));
    return points.length === 0 ? [] : [{ label, style, points, breaks: new Set(points.keys()) }];
  };
  const limit = { x: 0, y: limitMs, text: milliseconds(limitMs) };
  return [
    { label: "limit", style: boundStyle, isBound: true, isHorizontal: true, points: [limit] },
    ...line("misses the SLO", styles["missed"], ({ met }) => !met),
    ...line("meets the SLO", styles["met"], ({ met, chosen }) => met && !chosen),
    ...line("chosen", styles["chosen"], ({ chosen }) => chosen).map((chosen) => ({ ...chosen, markArea: 220 })),
  ];
}

function tooltip(cluster: Cluster, currency: string): string {
  const { objectives, costPerHour, goodputRequestsPerS, hitRatio, onFront } = cluster;
  return [
    clusterText(cluster),
    costText(costPerHour, currency),
    ...objectives.map((each) => `${nameOf(each)} ${valueText(each)}`),
    `goodput ${perSecond(goodputRequestsPerS)}, hit ratio ${percent(hitRatio)}`,
    ...(onFront ? ["on the Pareto front"] : []),
  ].join("\n");
}

function columnsOf(shown: SizeDetail): Column<Cluster>[] {
  const { clusters, currency } = shown;
  const objectives = clusters[0]?.objectives ?? [];
  const yes = (is: boolean, text: string) => (is ? text : "");
  return [
    {
      name: "cost",
      label: `${currency}/h`,
      value: (row) => row.costPerHour,
      show: (row) => row.costPerHour.toFixed(2),
    },
    { name: "gpus", label: "GPUs", value: (row) => row.gpus },
    { name: "gpu", label: "GPU", value: (row) => row.gpu },
    { name: "tp", label: "TP", value: (row) => row.tensorParallel },
    { name: "preset", label: "Preset", value: (row) => row.preset, wide: true },
    { name: "eviction", label: "Eviction", value: (row) => row.eviction },
    { name: "router", label: "Router", value: (row) => row.router ?? "–" },
    ...objectives.map(
      (objective, i): Column<Cluster> => ({
        name: objective.metric,
        label: nameOf(objective),
        csvLabel: `${nameOf(objective)}, ms`,
        value: (row) => row.objectives[i].valueMs,
        show: (row) => valueText(row.objectives[i]),
        numeric: true,
      }),
    ),
    { name: "met", label: "SLO", value: (row) => (row.met ? "met" : "missed") },
    {
      ...{ name: "goodput", label: "Goodput", csvLabel: "Goodput, req/s" },
      value: (row) => row.goodputRequestsPerS,
      show: (row) => perSecond(row.goodputRequestsPerS),
    },
    { name: "hits", label: "Hit ratio", value: (row) => row.hitRatio, show: (row) => roundPercent(row.hitRatio) },
    {
      ...{ name: "use", label: "Utilisation", wide: true },
      value: (row) => row.utilisation,
      show: (row) => roundPercent(row.utilisation),
    },
    {
      ...{ name: "mark", label: "Mark" },
      value: (row) => [yes(row.chosen, "chosen"), yes(row.onFront, "Pareto front")].filter(Boolean).join(", "),
    },
  ];
}
