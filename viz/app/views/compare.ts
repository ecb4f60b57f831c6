import type { RunDetail, RunRow } from "../../api.ts";
import { capacityFigure, haveOneSize, hitRatioBars } from "../charts/capacity.ts";
import { latencyFigure, throughputFigure } from "../charts/latency.ts";
import { pairsFigure } from "../charts/pairs.ts";
import { type Compared, isBound, isTimed } from "../compared.ts";
import { differencesTable } from "../controls/differences.ts";
import { h, refill, select, setChoices } from "../controls/dom.ts";
import { hitRatios } from "../controls/format.ts";
import { coloursOf, labelsOf, reportFacts } from "../controls/labels.ts";
import type { Page } from "../page.ts";
import { linkTo, readRoute, remember } from "../route.ts";
import { getRun } from "../server.ts";

/** Curves of latency that can still be told apart. */
const mostDrawn = 12;

/** Of more runs the reports are not asked for. */
const mostReports = 60;

/** Runs side by side; those that come or go meanwhile change the figures, and nothing that was chosen. */
export async function compareView(page: Page): Promise<void> {
  const { root, params, live, left } = page;
  const wanted = (params.get("runs") ?? "").split(",").filter(Boolean);
  const trace = params.get("trace") ?? undefined;
  const isUnknown = (id: string) => !live.rows.some((row) => row.id === id);
  if (wanted.some(isUnknown)) await live.refresh();
  if (left.aborted) return;
  const host = h("div");
  root.append(h("h1", {}, "Compare"), host);
  const reports = new Map<string, Promise<RunDetail>>();
  let stamp: string | undefined;
  let view: { readonly shape: string; show(choice: Choice, compared: Compared): void } | undefined;
  let built = new AbortController();
  const update = async () => {
    const choice = choiceOf(live.rows, wanted, trace);
    const now = stampOf(choice);
    if (now === stamp) return;
    stamp = now;
    const compared = await comparedOf(choice, reports, left);
    if (left.aborted || stamp !== now) return;
    const shape = shapeOf(compared);
    if (shape !== view?.shape) {
      built.abort();
      built = new AbortController();
      const inner = { ...page, root: host, params: readRoute().params, left: AbortSignal.any([left, built.signal]) };
      refill(host, () => {
        view = { shape, show: compared.rows.length === 0 ? showNothing(inner) : showAll(inner, compared) };
        view.show(choice, compared);
      });
    } else view.show(choice, compared);
  };
  await update();
  live.watch(() => void update(), left);
}

/** Which runs are compared, and what else there is. */
interface Choice {
  readonly rows: readonly RunRow[];
  /** Bounds of these that are not among them. */
  readonly bounds: readonly RunRow[];
  /** Runs that were asked for by name. */
  readonly wanted: readonly string[];
  readonly trace: string | undefined;
  readonly traces: readonly string[];
}

function choiceOf(rows: readonly RunRow[], wanted: readonly string[], asked: string | undefined): Choice {
  const traces = [...new Set(rows.map(({ trace }) => trace))];
  const trace = asked ?? traces[0];
  const chosen =
    wanted.length > 0 ? rows.filter(({ id }) => wanted.includes(id)) : rows.filter((row) => row.trace === trace);
  return { rows: chosen, bounds: boundsOf(chosen, rows), wanted, trace, traces };
}

/** The unlimited cache, and the optimum at the sizes of these runs and between them. */
function boundsOf(chosen: readonly RunRow[], rows: readonly RunRow[]): RunRow[] {
  const requestsOf = ({ trace, requests }: RunRow) => `${requests} ${trace}`;
  const [same, known] = [new Set(chosen.map(requestsOf)), new Set(chosen)];
  const isSame = (row: RunRow) => same.has(requestsOf(row));
  const sizes = chosen.filter((row) => !isBound(row)).map(sizeOf);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const isWithin = (row: RunRow) => row.blocks === null || (sizeOf(row) >= least && sizeOf(row) <= most);
  const isOther = (row: RunRow) => row.target === "cache" && isBound(row) && !known.has(row);
  return rows.filter((row) => isOther(row) && isSame(row) && isWithin(row));
}

const stampOf = ({ rows, bounds, traces }: Choice) =>
  [...[...rows, ...bounds].map(({ id, savedAtMs }) => `${id} ${savedAtMs}`), ...traces].join("\n");

/** What decides which figures there are. */
const shapeOf = (compared: Compared) =>
  [Math.min(2, compared.rows.length), haveOneSize(compared), compared.rows.some(isTimed)].join();

function showNothing({ root }: Page) {
  root.append(
    h(
      "p",
      { class: "hint" },
      "There is nothing to compare yet: ",
      h("a", { href: linkTo("runs") }, "choose runs"),
      ".",
    ),
  );
  return () => {};
}

/** Builds the figures that such runs have, and returns what shows runs in them. */
function showAll(page: Page, first: Compared): (choice: Choice, compared: Compared) => void {
  const { root, params, left } = page;
  let shown = first;
  let metric = params.get("metric") ?? "token";
  const metricOf = () => metric;
  const isOneSize = haveOneSize(first);
  const hasTimes = first.rows.some(isTimed);
  const capacity = isOneSize ? hitRatioBars(metricOf, left) : capacityFigure(metricOf, left);
  const differences = differencesTable(first, page, metricOf);
  const metrics = Object.keys(hitRatios).map((value) => ({ value, label: hitRatios[value] }));
  const setMetric = (value: string) => {
    metric = value;
    remember({ metric });
    capacity.show(shown);
    differences.show(shown);
  };
  const goTo = (value: string) => {
    location.hash = linkTo("compare", { trace: value, metric });
  };
  const chosen = h("div");
  const traceList = select("Trace: all of its runs", [], "", goTo);
  root.append(h("div", { class: "bar" }, chosen, select("Hit ratio counts", metrics, metric, setMetric)));
  const inTime = hasTimes ? [latencyFigure(page), throughputFigure(left)] : [];
  const few = h("p", { class: "hint" });
  if (!hasTimes || !isOneSize) root.append(capacity.element);
  if (hasTimes) {
    const bars = h("div", {}, isOneSize && capacity.element, inTime[1].element);
    root.append(h("div", { class: "grid" }, inTime[0].element, bars), few);
  }
  root.append(differences.element);
  const pairs = first.rows.length > 1 ? pairsFigure(page) : undefined;
  if (pairs) root.append(pairs.element);
  return ({ wanted, rows, trace = "", traces }, compared) => {
    shown = compared;
    if (wanted.length === 0) {
      setChoices(
        traceList,
        traces.map((value) => ({ value, label: value })),
        trace,
      );
      if (!traceList.isConnected) chosen.replaceChildren(traceList);
    } else chosen.replaceChildren(...chosenWords(rows.length, wanted));
    capacity.show(compared);
    differences.show(compared);
    pairs?.show(compared);
    const timed = compared.rows.filter(isTimed);
    for (const figure of inTime) figure.show({ ...compared, rows: timed.slice(0, mostDrawn) });
    few.hidden = timed.length <= mostDrawn;
    few.textContent = `Latencies and throughput are of the first ${mostDrawn} of ${timed.length} runs in time.`;
  };
}

function chosenWords(count: number, wanted: readonly string[]): Node[] {
  const gone = wanted.length - count;
  const link = h("a", { href: linkTo("runs", { runs: wanted.join(",") }) }, "choose others");
  return [h("p", { class: "count" }, `${count} chosen runs${gone > 0 ? `, ${gone} are not there` : ""} · `, link)];
}

/** The list's facts name most runs; where they do not, a few reports name those that differ in what the list does not say. */
async function comparedOf(
  { rows, bounds }: Choice,
  reports: Map<string, Promise<RunDetail>>,
  left: AbortSignal,
): Promise<Compared> {
  const reportOf = ({ id, savedAtMs }: RunRow) => {
    const key = `${id} ${savedAtMs}`;
    const known = reports.get(key) ?? getRun(id, left);
    reports.set(key, known);
    known.catch(() => reports.delete(key));
    return known;
  };
  const all = [...rows, ...bounds];
  const alike = areAlike(all, labelled(all, new Map()));
  const asked = rows.some(isTimed) || alike || bounds.length > 0 ? all : [];
  const areMany = asked.length > mostReports;
  const details = areMany ? [] : await Promise.allSettled(asked.map(reportOf));
  const facts = details.flatMap((each) =>
    each.status === "fulfilled" ? [[each.value.row.id, reportFacts(each.value.report)] as const] : [],
  );
  const known = new Map(facts);
  const fitting = boundsFor(rows, bounds, known);
  const labels = labelled([...rows, ...fitting], known);
  const inOrder = (some: readonly RunRow[]) =>
    [...some].sort((a, b) => labels.get(a.id)!.localeCompare(labels.get(b.id)!) || sizeOf(a) - sizeOf(b));
  const sorted = inOrder(rows);
  const colours = coloursOf(sorted.filter((row) => !isBound(row)).map(({ id }) => labels.get(id)!));
  return { rows: sorted, bounds: inOrder(fitting), isUnchecked: areMany && bounds.length > 0, labels, colours };
}

/**
 * Who keeps answers has an optimum of its own, and only an unlimited cache that keeps them, too, bounds everybody; who counts
 * other requests has other bounds. The same bound whatever else was configured is one.
 */
function boundsFor(
  rows: readonly RunRow[],
  bounds: readonly RunRow[],
  facts: ReadonlyMap<string, ReturnType<typeof reportFacts>>,
): RunRow[] {
  const of = (name: string, { id }: RunRow) => facts.get(id)?.[name];
  const areAll = (name: string, bound: RunRow) => rows.every((row) => of(name, row) === of(name, bound));
  const keeps = (bound: RunRow) => bound.blocks === null && of("cache-generated", bound) === "cache-generated true";
  const fitting = bounds.filter(
    (bound) => facts.has(bound.id) && areAll("warmup", bound) && (keeps(bound) || areAll("cache-generated", bound)),
  );
  const figuresOf = ({ requests, blocks, hitRatio }: RunRow) => JSON.stringify([requests, blocks, hitRatio]);
  return [...new Map(fitting.map((row) => [figuresOf(row), row])).values()];
}

/** Bounds are called so, with what else tells them apart. */
function labelled(rows: readonly RunRow[], facts: Parameters<typeof labelsOf>[1]): Map<string, string> {
  const named = (some: readonly RunRow[], name: string): [string, string][] => {
    const words = labelsOf(some, facts, () => "");
    return some.map(({ id }) => [id, [name, words.get(id)].filter(Boolean).join(" · ")]);
  };
  const isUnlimited = ({ blocks }: RunRow) => blocks === null;
  return new Map([
    ...labelsOf(
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

/** Whether runs of one size have the same words. */
const areAlike = (rows: readonly RunRow[], labels: ReadonlyMap<string, string>) =>
  new Set(rows.map((row) => `${labels.get(row.id)} ${row.capacityTokens}`)).size < rows.length;

const sizeOf = ({ capacityTokens }: RunRow) => capacityTokens ?? Number.POSITIVE_INFINITY;
