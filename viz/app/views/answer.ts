import type { RunRow } from "../../api.ts";
import { hitRatioBars, hitRatioCurve } from "../charts/hit-ratio.ts";
import { activeRunsCard } from "../controls/active-runs.ts";
import { h, select } from "../controls/dom.ts";
import { metricTiles, type Tile } from "../controls/metric-tiles.ts";
import { describeRuns } from "../controls/provenance.ts";
import { redrawing } from "../controls/redraw.ts";
import { type Column, Table } from "../controls/table.ts";
import {
  answersByRate,
  answersBySize,
  defaultTokenBytes,
  pinnedIn,
  type RateAnswer,
  type SizeAnswer,
  sloShare,
  workloadOf,
  workloadsOf,
} from "../data/answer.ts";
import { comparisonOf, isTimed, nameOf } from "../data/comparison.ts";
import {
  approximate,
  hitRatios,
  integer,
  milliseconds,
  percent,
  perSecond,
  points,
  roundPercent,
} from "../data/format.ts";
import { haveOneSize } from "../data/line-breaks.ts";
import { runLabels } from "../data/run-labels.ts";
import { versionOf } from "../data/server.ts";
import { linkTo, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** The landing page: the best policy of a workload at each cache size or rate, and what it gains. */
export const answerView: View = { name: "answer", title: "Answer", menuOrder: 0, show: showAnswer };

/** Draws the answer again when runs are saved or removed. */
function showAnswer(context: ViewContext): void {
  const { root, server, signal } = context;
  const host = h("div");
  root.append(h("h1", {}, "Which policy?"), activeRunsCard(context), host);
  const rebuildWith = redrawing(context, host);
  let version = "";
  const draw = () => {
    const latest = server.shownRows.map(versionOf).join("\n");
    if (latest === version && host.hasChildNodes()) return;
    version = latest;
    redraw();
  };
  const redraw = () => rebuildWith((inner) => drawAnswer(inner, redraw));
  draw();
  server.watch(draw, signal);
}

function drawAnswer({ root, params, server, signal }: ViewContext, redraw: () => void): void {
  const workloads = workloadsOf(server.shownRows);
  if (workloads.length === 0) {
    root.append(
      h(
        "p",
        { class: "hint" },
        "There are no saved runs. ",
        h("code", {}, "kvlab compare TRACE --out runs"),
        " compares policies at several cache sizes and saves the runs.",
      ),
    );
    return;
  }
  const requested = params.get("workload") ?? "";
  const workload = workloads.includes(requested) ? requested : workloads[0];
  const rows = server.shownRows.filter((row) => workloadOf(row) === workload && !row.interrupted);
  const metric = params.get("metric") ?? rows.find(({ uncertainty }) => uncertainty)?.uncertainty?.metric ?? "token";
  const areTimed = rows.some(isTimed);
  const choose = (name: string) => (value: string) => {
    updateRoute({ [name]: value, ...(name === "workload" && { size: undefined }) });
    redraw();
  };
  const definitions = Object.entries(hitRatios).map(([value, label]) => ({ value, label }));
  const answers = answersBySize(rows, metric);
  const size = answers.find(({ capacityTokens }) => String(capacityTokens) === params.get("size")) ?? largest(answers);
  const sizes = answers.map((each) => ({ value: String(each.capacityTokens), label: sizeText(each) }));
  root.append(
    h(
      "div",
      { class: "bar" },
      select(
        "Workload",
        workloads.map((value) => ({ value, label: value })),
        workload,
        choose("workload"),
      ),
      select("Hit ratio definition", definitions, metric, choose("metric")),
      size !== undefined && !areTimed && select("Cache size", sizes, String(size.capacityTokens), choose("size")),
    ),
  );
  const names = comparisonOf(rows, server.rows);
  describeRuns(root, () => rows);
  const pinned = pinnedIn(rows);
  const base = pinned ? (pinned.preset ?? pinned.eviction) : "LRU";
  const nameIn = (row: RunRow) => names.bandLabels.get(row.id) ?? nameOf(names, row.id);
  if (areTimed) root.append(rateCard(answersByRate(rows), base));
  if (size && !areTimed) root.append(metricTiles(tilesOf(size, metric, base, nameIn)));
  if (answers.length > 1 && !haveOneSize(answers)) root.append(sizeCard(answers, metric, base, nameIn));
  if (!areTimed && names.rows.length > 0) {
    const figure = haveOneSize(names.rows) ? hitRatioBars(() => metric, signal) : hitRatioCurve(() => metric, signal);
    root.append(figure.element);
    figure.show(names);
  }
  root.append(
    h(
      "p",
      { class: "actions" },
      h("a", { class: "button main", href: linkTo("compare", { workload: workload, metric }) }, "Compare these runs"),
      h("a", { class: "button", href: linkTo("runs") }, `All ${integer(server.rows.length)} runs`),
    ),
  );
}

/** The size at which the best policy gains most over the reference. */
const largest = (answers: readonly SizeAnswer[]) =>
  [...answers].sort((a, b) => (b.gain ?? 0) - (a.gain ?? 0) || a.capacityTokens - b.capacityTokens)[0];

const sizeText = ({ capacityTokens, best }: SizeAnswer) =>
  `${approximate(capacityTokens)} tokens, ${integer(best.blocks!)} blocks, ${gigabytes(capacityTokens, best)}`;

const gigabytes = (tokens: number, { kvBytesPerToken = defaultTokenBytes }: RunRow) =>
  `${approximate((tokens * kvBytesPerToken) / 2 ** 30)} GiB`;

function tilesOf(answer: SizeAnswer, metric: string, base: string, nameIn: (row: RunRow) => string): Tile[] {
  const { best, reference, gain, isGainNoise, savedTokens, gapClosed, asGood, perGiB, doubled, optimum } = answer;
  const ratioOf = (row: RunRow) => row.hitRatio[metric];
  const noise = isGainNoise === undefined ? "" : isGainNoise ? ", within noise" : ", beyond noise";
  const tiles: Tile[] = [
    ["Best policy", nameIn(best), `${percent(best.hitRatio[metric])} at ${sizeText(answer)}`],
    [
      `Gain over ${base}`,
      gain === undefined ? "–" : points(gain),
      reference === undefined
        ? `${base} was not run with these options`
        : `${base}: ${percent(ratioOf(reference))}${noise}`,
    ],
  ];
  if (savedTokens !== undefined)
    tiles.push([
      "Tokens not recomputed",
      approximate(savedTokens),
      `${percent(savedTokens / best.lookupTokens)} of all prompt tokens, compared with ${base}`,
    ]);
  if (gapClosed !== undefined)
    tiles.push([
      "Gap to the bound closed",
      gapClosed === null ? "–" : percent(gapClosed),
      gapClosed === null ? "LRU reaches the proven bound" : "from LRU to what no policy exceeds",
    ]);
  if (optimum !== undefined)
    tiles.push([
      "Offline optimum",
      percent(ratioOf(optimum)),
      `${points(ratioOf(optimum) - ratioOf(best))}: it knows all future requests`,
    ]);
  if (best.uncertainty !== undefined)
    tiles.push(["As good, within noise", integer(asGood.length), asGood.map(nameIn).join(", ") || "no other policy"]);
  tiles.push(
    doubled === undefined
      ? ["Twice the cache", "–", `${approximate(2 * answer.capacityTokens)} tokens were not run`]
      : [
          "Twice the cache",
          points(doubled.gain),
          `${nameIn(doubled.best)}: ${percent(ratioOf(doubled.best))} at ${approximate(doubled.best.capacityTokens!)} tokens`,
        ],
    perGiB === undefined
      ? ["One more GiB", "–", "no larger size was run"]
      : ["One more GiB", points(perGiB), "mean up to the next size that was run"],
  );
  return tiles;
}

function sizeCard(
  answers: readonly SizeAnswer[],
  metric: string,
  base: string,
  nameIn: (row: RunRow) => string,
): HTMLElement {
  const optional = (value: number | null | undefined, text: (value: number) => string) =>
    value === undefined || value === null ? "–" : text(value);
  const column = (
    name: string,
    label: string,
    of: (each: SizeAnswer) => number | null | undefined,
    text: (value: number) => string,
  ): Column<SizeAnswer> => ({
    ...{ name, label, numeric: true, value: of },
    show: (each) => optional(of(each), text),
  });
  const table = new Table<SizeAnswer>({
    title: "The best policy at each cache size",
    columns: [
      column("size", "Cache size, tokens", ({ capacityTokens }) => capacityTokens, approximate),
      column("blocks", "Blocks", ({ best }) => best.blocks, integer),
      {
        ...{ name: "memory", label: "Memory", numeric: true },
        value: ({ capacityTokens }) => capacityTokens,
        show: ({ capacityTokens, best }) => gigabytes(capacityTokens, best),
      },
      {
        ...{ name: "best", label: "Best policy", value: ({ best }) => nameIn(best) },
        show: ({ best, asGood }) =>
          h(
            "span",
            {},
            h("a", { href: linkTo("run", { id: best.id }) }, nameIn(best)),
            asGood.length > 0 && ` ≈ ${asGood.map(nameIn).join(", ")}`,
          ),
      },
      column("ratio", "Hit ratio", ({ best }) => best.hitRatio[metric], percent),
      {
        ...column("gain", `Gain over ${base}`, ({ gain }) => gain, points),
        show: ({ gain, isGainNoise }) => `${optional(gain, points)}${isGainNoise ? " ≈" : ""}`,
      },
      ...(answers.some(({ best }) => isTimed(best)) ? ttftColumns<SizeAnswer>(base) : []),
      column("saved", "Tokens not recomputed", ({ savedTokens }) => savedTokens, approximate),
      column("gap", "Gap to the bound closed", ({ gapClosed }) => gapClosed, percent),
      column("perGiB", "One more GiB", ({ perGiB }) => perGiB, points),
    ],
    key: ({ capacityTokens }) => capacityTokens,
  });
  table.show(answers);
  const hasBytes = answers.some(({ best }) => best.kvBytesPerToken !== undefined);
  const notes = [
    "≈: within noise, the 95 % interval of the difference contains 0.",
    ...(hasBytes ? [] : ["Memory: keys and values of llama-3.1-8b, 128 KiB for each token."]),
  ];
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "The best policy at each cache size"), table.saveButtons()),
    table.element,
    h("p", { class: "note" }, notes.join(" ")),
  );
}

/** TTFT of the best run less that of the reference, ms; undefined without both, or where the reference is the best. */
const ttftGain = (
  { best, reference }: Pick<SizeAnswer | RateAnswer, "best" | "reference">,
  name: "ttftMsP50" | "ttftMsP99",
): number | undefined => {
  const [own, other] = [best[name], reference?.[name]];
  return own === undefined || other === undefined || reference === best ? undefined : own - other;
};

/** What the best run gains in TTFT, at p50 and p99. */
const ttftColumns = <Answer extends SizeAnswer | RateAnswer>(base: string): Column<Answer>[] =>
  (["ttftMsP50", "ttftMsP99"] as const).map((name) => {
    const label = `TTFT ${name === "ttftMsP50" ? "p50" : "p99"} vs. ${base}`;
    return {
      ...{ name: `${name}-gain`, label, csvLabel: `${label}, ms`, numeric: true },
      value: (answer) => ttftGain(answer, name),
      show: (answer) => {
        const gain = ttftGain(answer, name);
        return gain === undefined ? "–" : signedMs(gain);
      },
    };
  });

const signedMs = (ms: number) => `${ms < 0 ? "−" : "+"}${milliseconds(Math.abs(ms))}`;

function rateCard(answers: readonly RateAnswer[], base: string): HTMLElement {
  const systems = answers.flatMap(({ runs }) => runs);
  const labels = runLabels(systems, { omitted: ["requestsPerS", "seed", "free-order"] });
  const nameIn = ({ id }: RunRow) => labels.get(id)!;
  const hasSlo = answers.some(({ meeting }) => meeting !== undefined);
  const latency = (name: string, label: string, of: (row: RunRow) => number | undefined): Column<RateAnswer> => ({
    ...{ name, label, csvLabel: `${label}, ms`, numeric: true },
    value: ({ best }) => of(best),
    show: ({ best }) => (of(best) === undefined ? "–" : milliseconds(of(best)!)),
  });
  const slo: Column<RateAnswer>[] = [
    {
      ...{ name: "goodput", label: "Goodput", csvLabel: "Goodput, req/s", numeric: true },
      value: ({ best }) => best.goodputRequestsPerS,
      show: ({ best }) => (best.goodputRequestsPerS === undefined ? "–" : perSecond(best.goodputRequestsPerS)),
    },
    {
      ...{ name: "meeting", label: `Meet the SLO, ${roundPercent(sloShare)} of requests` },
      value: ({ meeting }) => meeting?.map(nameIn).join(", ") || "none",
    },
  ];
  const table = new Table<RateAnswer>({
    title: "The best system at each rate",
    columns: [
      {
        ...{ name: "rate", label: "Offered, req/s", numeric: true },
        value: ({ rate }) => rate,
        show: ({ rate }) => (rate === undefined ? "as in the trace" : approximate(rate)),
      },
      {
        ...{ name: "best", label: "Best system", value: ({ best }) => nameIn(best) },
        show: ({ best }) => h("a", { href: linkTo("run", { id: best.id }) }, nameIn(best)),
      },
      ...(hasSlo ? slo : []),
      latency("ttft", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50),
      latency("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99),
      latency("tpot", "TPOT p50", ({ tpotMsP50 }) => tpotMsP50),
      {
        ...{ name: "throughput", label: "Output tokens/s", numeric: true },
        value: ({ best }) => best.outputTokensPerS,
        show: ({ best }) => (best.outputTokensPerS === undefined ? "–" : approximate(best.outputTokensPerS)),
      },
      ...ttftColumns<RateAnswer>(base),
      { name: "limit", label: "Limited by", value: ({ best }) => best.limitedBy ?? "–" },
    ],
    key: ({ rate }) => rate ?? "trace",
  });
  table.show(answers);
  const rule = hasSlo ? "Best: the highest goodput." : "Best: the lowest TTFT p99; with --slo, the highest goodput.";
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "The best system at each rate"), table.saveButtons()),
    ...(hasSlo ? [h("p", {}, highestRateText(answers, nameIn))] : []),
    table.element,
    h("p", { class: "note" }, rule),
  );
}

/** The highest offered rate at which a system meets the SLO. */
function highestRateText(answers: readonly RateAnswer[], nameIn: (row: RunRow) => string): string {
  const highest = answers.findLast(({ meeting }) => meeting !== undefined && meeting.length > 0);
  if (!highest) return "No system meets the SLO at any rate that was run.";
  const rate = highest.rate === undefined ? "the rate of the trace" : `${approximate(highest.rate)} req/s`;
  const end = highest === answers.at(-1) ? ", the highest rate that was run" : "";
  return `The SLO is met up to ${rate}${end}, by ${highest.meeting!.map(nameIn).join(", ")}.`;
}
