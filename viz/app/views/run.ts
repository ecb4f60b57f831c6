import type { RunDetail, Setting } from "../../api.ts";
import { distributionsFigure } from "../charts/distributions.ts";
import { missReasonsFigure } from "../charts/miss-reasons.ts";
import { replicasFigure } from "../charts/replicas.ts";
import { requestHitsFigure } from "../charts/request-hits.ts";
import { residencyFigure } from "../charts/residency.ts";
import { timeSeriesFigure } from "../charts/time-series.ts";
import { commandCard } from "../controls/command-card.ts";
import { h } from "../controls/dom.ts";
import { metricTiles } from "../controls/metric-tiles.ts";
import { noRunNamed } from "../controls/no-run.ts";
import { prefixesCard } from "../controls/prefix-tables.ts";
import { describeRuns } from "../controls/provenance.ts";
import { redrawing } from "../controls/redraw.ts";
import { type Report, runTiles } from "../controls/run-tiles.ts";
import { sessionsCard } from "../controls/sessions-card.ts";
import { dateText, integer, policyOf, settingParts, targetText } from "../data/format.ts";
import { getRun, getSeries, isBroken } from "../data/server.ts";
import { linkTo } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** One saved run: its metrics, time series, miss reasons, prefixes and configuration. */
export const runView: View = { name: "run", title: "Run", show: showRun };

/** Draws the run again when its folder is replaced, and shows an alert when its folder is removed. */
async function showRun(context: ViewContext): Promise<void> {
  const { root, params, server, signal } = context;
  const id = params.get("id") ?? "";
  if (id === "") {
    root.append(...noRunNamed("Run"));
    return;
  }
  const alert = h("p", { class: "problem", role: "alert", hidden: true });
  const host = h("div");
  root.append(alert, host);
  const rebuildWith = redrawing(context, host);
  let isDrawn = false;
  const draw = async () => {
    const drawnVersion = version;
    const isStale = () => signal.aborted || version !== drawnVersion;
    try {
      const detail = await getRun(id, signal);
      if (isStale()) return;
      rebuildWith((inner) => drawRun(inner, detail, detail.report as unknown as Report));
      alert.hidden = true;
      isDrawn = true;
    } catch (error) {
      if (isStale()) return;
      alert.textContent = `This run cannot be shown: ${(error as Error).message}`;
      if (isDrawn)
        alert.textContent = `This run no longer exists: ${(error as Error).message}. Below is its last version.`;
      else if (!host.hasChildNodes())
        host.append(h("h1", {}, id), h("p", {}, h("a", { href: linkTo("runs") }, "All runs")));
      alert.hidden = false;
    }
  };
  const versionOf = () => {
    const row = server.runs.find((each) => each.id === id);
    return row && (isBroken(row) ? row.problem : row.savedAtMs);
  };
  let version = versionOf();
  server.watch(() => {
    const latest = versionOf();
    if (latest === version) return;
    version = latest;
    void draw();
  }, signal);
  await draw();
}

function drawRun(context: ViewContext, { row, command, files }: RunDetail, report: Report): void {
  const { root, signal } = context;
  const { interrupted } = report;
  describeRuns(root, () => [row]);
  root.append(
    h("h1", {}, row.id),
    h(
      "p",
      { class: "lead" },
      `${row.trace} · ${targetText(row.target)} · ${policyOf(row)} · saved ${dateText(row.savedAtMs)}`,
    ),
    ...(files.includes("events.parquet") ? [eventsLink(row.id)] : []),
    metricTiles(runTiles(row, report)),
  );
  if (interrupted)
    root.append(
      h(
        "p",
        { class: "problem" },
        `The run was interrupted after ${integer(interrupted.requestsDone)} of ${integer(interrupted.of)} requests.`,
      ),
    );
  if (row.refused !== undefined && row.refused === row.requests)
    root.append(h("p", { class: "problem" }, "The run refused every request: no metric below describes a served one."));
  root.append(timeSeriesFigure(context, (...args) => getSeries(row.id, ...args)).element);
  if (report.latency) root.append(distributionsFigure(row.id, signal));
  if ((report.cluster?.replicas.length ?? 0) > 1) root.append(replicasFigure(row.id, report.cluster!, context));
  root.append(h("div", { class: "grid" }, missReasonsFigure(report.cache, signal), requestHitsFigure(row.id, signal)));
  if (report.residency) root.append(residencyFigure(report.residency, signal));
  root.append(sessionsCard(row.id, signal));
  root.append(prefixesCard(row.id, files, signal), commandCard(command), configurationCard(row, report, files));
}

const eventsLink = (id: string) =>
  h(
    "p",
    { class: "actions" },
    h("a", { class: "button main", href: linkTo("travel", { id }) }, "Step through its events"),
  );

/** All settings of the run. */
function configurationCard(row: RunDetail["row"], report: Report, files: readonly string[]): HTMLElement {
  const { trace, policy, simulation, engine, seed, warmup } = report;
  const settingsOf = (values: Readonly<Record<string, unknown>> = {}) =>
    Object.entries(values).flatMap(([name, value]): [string, string][] =>
      value === null
        ? []
        : typeof value === "object"
          ? [[name, JSON.stringify(value).replace(/[{}"]/g, "").replaceAll(",", ", ")]]
          : [[...settingParts(name, value as Setting)]],
    );
  const facts: [string, string][] = [
    ["trace", trace.files.join(", ") || "the built-in example"],
    ["preset", row.preset ?? "none"],
    ["index", row.index],
    ["eviction", row.eviction],
    ["allocator", row.allocator],
    ["scheduler", row.scheduler],
    ["seed, warm-up", `${seed}, ${integer(warmup)} requests`],
    [
      "rules",
      Object.entries(policy.rules)
        .map(([name, value]) => `${name}=${value}`)
        .join(", "),
    ],
    ...settingsOf(simulation),
    ...settingsOf(engine),
    ["files", files.join(", ")],
  ];
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "Configuration")),
    h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
