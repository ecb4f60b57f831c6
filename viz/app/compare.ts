import type { RunRow } from "../api.ts";
import { capacityFigure, haveOneSize, hitRatioBars } from "./capacity.ts";
import { type Compared, isBound, isTimed } from "./compared.ts";
import { differencesTable } from "./differences.ts";
import { h, select } from "./dom.ts";
import { hitRatios } from "./format.ts";
import { coloursOf, labelsOf, reportFacts } from "./labels.ts";
import { latencyFigure, throughputFigure } from "./latency.ts";
import type { Page } from "./page.ts";
import { pairsFigure } from "./pairs.ts";
import { linkTo, remember } from "./route.ts";
import { getRun } from "./server.ts";

/** Curves of latency that can still be told apart. */
const mostDrawn = 12;

/** Of more runs the reports are not asked for. */
const mostReports = 24;

export async function compareView(page: Page): Promise<void> {
  const { root, params, live, left } = page;
  const wanted = (params.get("runs") ?? "").split(",").filter(Boolean);
  const isUnknown = (id: string) => !live.rows.some((row) => row.id === id);
  if (wanted.some(isUnknown)) await live.refresh();
  const { rows } = live;
  const traces = [...new Set(rows.map(({ trace }) => trace))];
  const trace = params.get("trace") ?? traces[0];
  const chosen =
    wanted.length > 0 ? rows.filter(({ id }) => wanted.includes(id)) : rows.filter((row) => row.trace === trace);
  root.append(h("h1", {}, "Compare"));
  if (chosen.length === 0) {
    root.append(
      h(
        "p",
        { class: "hint" },
        "There is nothing to compare yet: ",
        h("a", { href: linkTo("runs") }, "choose runs"),
        ".",
      ),
    );
    return;
  }
  const compared = await comparedOf(chosen, left);
  if (left.aborted) return;

  let metric = params.get("metric") ?? "token";
  const metrics = Object.keys(hitRatios).map((value) => ({ value, label: hitRatios[value] }));
  const isOneSize = haveOneSize(compared);
  const capacity = isOneSize ? hitRatioBars(compared, left) : capacityFigure(compared, left);
  const differences = differencesTable(compared, page, () => metric);
  const setMetric = (value: string) => {
    metric = value;
    remember({ metric });
    capacity.show(metric);
    differences.show();
  };
  const goTo = (value: string) => {
    location.hash = linkTo("compare", { trace: value, metric });
  };
  root.append(
    h(
      "div",
      { class: "bar" },
      wanted.length > 0
        ? h(
            "p",
            { class: "count" },
            `${chosen.length} chosen runs · `,
            h("a", { href: linkTo("runs", { runs: wanted.join(",") }) }, "choose others"),
          )
        : select(
            "Trace: all of its runs",
            traces.map((value) => ({ value, label: value })),
            trace,
            goTo,
          ),
      select("Hit ratio counts", metrics, metric, setMetric),
    ),
  );
  const timed = compared.rows.filter(isTimed);
  if (timed.length === 0 || !isOneSize) root.append(capacity.element);
  if (timed.length > 0) {
    const shown = { ...compared, rows: timed.slice(0, mostDrawn) };
    const bars = h("div", {}, isOneSize && capacity.element, throughputFigure(shown, left));
    root.append(h("div", { class: "grid" }, latencyFigure(shown, page), bars));
    if (timed.length > mostDrawn)
      root.append(
        h(
          "p",
          { class: "hint" },
          `Latencies and throughput are of the first ${mostDrawn} of ${timed.length} runs in time.`,
        ),
      );
  }
  root.append(differences.element);
  if (compared.rows.length > 1) root.append(pairsFigure(compared, page));
  capacity.show(metric);
  differences.show();
}

/** The list's facts name most runs; a few reports name those that differ in what the list does not say. */
async function comparedOf(rows: readonly RunRow[], left: AbortSignal): Promise<Compared> {
  const timed = rows.filter(isTimed);
  const details = timed.length <= mostReports ? await Promise.allSettled(timed.map(({ id }) => getRun(id, left))) : [];
  const facts = details.flatMap((each) =>
    each.status === "fulfilled" ? [[each.value.row.id, reportFacts(each.value.report)] as const] : [],
  );
  const labels = new Map([
    ...labelsOf(
      rows.filter((row) => !isBound(row)),
      new Map(facts),
    ),
    ...rows.filter(isBound).map((row): [string, string] => [row.id, boundName(row)]),
  ]);
  const sorted = [...rows].sort((a, b) => labels.get(a.id)!.localeCompare(labels.get(b.id)!) || sizeOf(a) - sizeOf(b));
  const colours = coloursOf(sorted.filter((row) => !isBound(row)).map(({ id }) => labels.get(id)!));
  return { rows: sorted, labels, colours };
}

const sizeOf = ({ capacityTokens }: RunRow) => capacityTokens ?? Number.POSITIVE_INFINITY;

const boundName = ({ blocks }: RunRow) => (blocks === null ? "unlimited cache" : "offline optimum");
