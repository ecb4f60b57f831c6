import * as Plot from "@observablehq/plot";
import type { RequestsData, RunDetail } from "../../api.ts";
import { figure, onWidth } from "../charts/figure.ts";
import { drawPlot } from "../charts/plot.ts";
import { seriesFigure } from "../charts/series.ts";
import { announce, h, refill } from "../controls/dom.ts";
import {
  approximate,
  integer,
  latencies,
  milliseconds,
  percent,
  perSecond,
  policyOf,
  when,
} from "../controls/format.ts";
import { prefixesCard } from "../controls/prefixes.ts";
import type { Page } from "../page.ts";
import { linkTo, readRoute } from "../route.ts";
import { getRequests, getRun, getSeries, isBroken } from "../server.ts";

/** What a report has of a run; the page shows it as it was saved. */
interface Report {
  readonly trace: {
    readonly files: readonly string[];
    readonly requests: number;
    readonly inputTokens: number;
    readonly outputTokens: number;
  };
  readonly policy: { readonly rules: Readonly<Record<string, unknown>> };
  readonly seed: number;
  readonly warmup: number;
  readonly cache: {
    readonly lookupTokens: number;
    readonly hitTokens: number;
    readonly evictedBlocks: number;
    readonly refusedRequests: number;
    readonly preemptions?: number;
    readonly missTokens: Readonly<Record<string, number>>;
  };
  readonly latency: Readonly<
    Record<string, { readonly mean: number; readonly p50: number; readonly p99: number } | null>
  > | null;
  readonly throughput: {
    readonly requestsPerS: number;
    readonly outputTokensPerS: number;
    readonly makespanS: number;
  } | null;
  readonly simulation?: Readonly<Record<string, unknown>>;
  readonly engine?: Readonly<Record<string, unknown>>;
  readonly interrupted?: { readonly requestsDone: number; readonly of: number };
}

/** One run; when another one takes its place it is shown instead, and when it goes that is said. */
export async function runView(page: Page): Promise<void> {
  const { root, params, live, left } = page;
  const id = params.get("id") ?? "";
  const gone = h("p", { class: "problem", role: "alert", hidden: true });
  const host = h("div");
  root.append(gone, host);
  let built = new AbortController();
  let hasFigures = false;
  const draw = async () => {
    const asked = stamp;
    const isStale = () => left.aborted || stamp !== asked;
    try {
      const detail = await getRun(id, left);
      if (isStale()) return;
      built.abort();
      built = new AbortController();
      const inner = { ...page, root: host, params: readRoute().params, left: AbortSignal.any([left, built.signal]) };
      refill(host, () => show(inner, detail, detail.report as unknown as Report));
      gone.hidden = true;
      hasFigures = true;
    } catch (error) {
      if (isStale()) return;
      gone.textContent = `This run cannot be shown: ${(error as Error).message}`;
      if (hasFigures)
        gone.textContent = `This run is there no more: ${(error as Error).message}. Below is what it was.`;
      else if (!host.hasChildNodes())
        host.append(h("h1", {}, id), h("p", {}, h("a", { href: linkTo("runs") }, "All runs")));
      gone.hidden = false;
    }
  };
  const stampOf = () => {
    const row = live.runs.find((each) => each.id === id);
    return row && (isBroken(row) ? row.problem : row.savedAtMs);
  };
  let stamp = stampOf();
  live.watch(() => {
    const now = stampOf();
    if (now === stamp) return;
    stamp = now;
    void draw();
  }, left);
  await draw();
}

function show(page: Page, { row, command, files }: RunDetail, report: Report): void {
  const { root, left } = page;
  const { interrupted } = report;
  root.append(
    h("h1", {}, row.id),
    h(
      "p",
      { class: "lead" },
      `${row.trace} · ${targets[row.target]} · ${policyOf(row)} · saved ${when(row.savedAtMs)}`,
    ),
    ...(files.includes("events.parquet") ? [travelLink(row.id)] : []),
    tiles(headlines({ row, report })),
  );
  if (interrupted)
    root.append(
      h(
        "p",
        { class: "problem" },
        `It was interrupted after ${integer(interrupted.requestsDone)} of ${integer(interrupted.of)} requests.`,
      ),
    );
  root.append(seriesFigure(page, (...asked) => getSeries(row.id, ...asked)).element);
  root.append(h("div", { class: "grid" }, missesFigure(report, left), requestsFigure(row.id, left)));
  root.append(prefixesCard(row.id, files, left), commandCard(command), configurationCard(row, report, files));
}

const travelLink = (id: string) =>
  h(
    "p",
    { class: "actions" },
    h("a", { class: "button main", href: linkTo("travel", { id }) }, "Step through its events"),
  );

export const targets = { cache: "cache without a clock", sim: "simulated", cpu: "real engine on the CPU" };

/** A name, the figure, and what explains it. */
export type Tile = readonly [name: string, value: string, more: string];

function headlines({ row, report }: { readonly row: RunDetail["row"]; readonly report: Report }): Tile[] {
  const { cache, latency, throughput, trace } = report;
  const tile = (name: string, title: string): Tile[] => {
    const found = latency?.[name];
    return found
      ? [[title, milliseconds(found.p50), `p99 ${milliseconds(found.p99)}, mean ${milliseconds(found.mean)}`]]
      : [];
  };
  return [
    [
      "Hit ratio, tokens",
      percent(row.hitRatio["token"]),
      `${approximate(cache.hitTokens)} of ${approximate(cache.lookupTokens)} tokens`,
    ],
    [
      "Hit ratio, blocks",
      percent(row.hitRatio["block"]),
      `mean of requests ${percent(row.hitRatio["requestMeanBlock"])}`,
    ],
    [
      "Cache",
      row.blocks === null ? "unlimited" : `${approximate(row.capacityTokens ?? 0)} tokens`,
      row.blocks === null
        ? `blocks of ${row.blockTokens} tokens`
        : `${integer(row.blocks)} blocks of ${row.blockTokens}`,
    ],
    ["Requests", integer(trace.requests), `${integer(cache.refusedRequests)} refused`],
    ...tile("ttftMs", "TTFT p50"),
    ...tile("tpotMs", "TPOT p50"),
    ...tile("e2eMs", "Latency p50"),
    ...(throughput
      ? [
          [
            "Throughput",
            perSecond(throughput.requestsPerS),
            `${approximate(throughput.outputTokensPerS)} answer tokens/s`,
          ] as const,
        ]
      : []),
    ...(throughput
      ? [["Duration", milliseconds(throughput.makespanS * 1000), "from the first arrival to the last token"] as const]
      : []),
    ["Evicted blocks", integer(cache.evictedBlocks), `${integer(cache.preemptions ?? 0)} preemptions`],
  ];
}

export const tiles = (all: readonly Tile[]) =>
  h(
    "dl",
    { class: "tiles" },
    ...all.map(([name, value, more]) =>
      h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, more))),
    ),
  );

const reasons: Readonly<Record<string, string>> = {
  "never-seen": "never seen before",
  evicted: "evicted",
  "past-hole": "past a hole",
  "shorter-than-block": "shorter than a block",
  "other-namespace": "another tenant’s",
  "not-yet-computed": "not yet computed",
  "match-limit": "match limit",
};

/** Where every prompt token came from: the cache, or why not. */
function missesFigure({ cache }: Report, left: AbortSignal): HTMLElement {
  const { element, body, note } = figure("Why tokens missed");
  const all = [
    { name: "hit", tokens: cache.hitTokens, colour: "var(--c2)" },
    ...Object.entries(cache.missTokens).map(([name, tokens]) => ({
      name: reasons[name] ?? name,
      tokens,
      colour: "var(--c1)",
    })),
  ];
  const bars = all.filter(({ tokens }) => tokens > 0);
  const absent = all.filter(({ tokens }) => tokens === 0).map(({ name }) => name);
  const share = (tokens: number) => percent(tokens / Math.max(1, cache.lookupTokens));
  note(absent.length > 0 ? `None: ${absent.join(", ")}.` : "");
  onWidth(body, left, (width) => {
    drawPlot(body, {
      width,
      height: 60 + bars.length * 40,
      marginLeft: 130,
      marginRight: 104,
      marginBottom: 44,
      x: {
        label: "prompt tokens",
        labelOffset: 38,
        grid: true,
        ticks: 4,
        tickFormat: (value: number) => approximate(value),
      },
      y: { label: null, domain: bars.map(({ name }) => name), padding: 0.3 },
      ariaLabel: `Prompt tokens: ${bars.map(({ name, tokens }) => `${name} ${integer(tokens)}, ${share(tokens)}`).join("; ")}`,
      marks: [
        Plot.barX(bars, { x: "tokens", y: "name", fill: "colour", rx: 3 }),
        Plot.text(bars, {
          x: "tokens",
          y: "name",
          text: ({ tokens }) => `${approximate(tokens)} · ${share(tokens)}`,
          textAnchor: "start",
          dx: 6,
          fill: "currentColor",
        }),
      ],
    });
  });
  return element;
}

/** Each request by its length and how much of it was cached. */
function requestsFigure(id: string, left: AbortSignal): HTMLElement {
  const { element, body, note } = figure("What each request found");
  let data: RequestsData | undefined;
  const draw = (width: number) => {
    if (!data) return;
    const { columns } = data;
    const points = (columns["inputTokens"] ?? []).map((input, i) => ({
      input: input ?? 0,
      hits: columns["hitTokens"]?.[i] ?? 0,
      title: titleOf(columns, i),
    }));
    drawPlot(body, {
      width,
      height: 300,
      marginLeft: 56,
      marginBottom: 42,
      x: {
        label: "prompt tokens",
        grid: true,
        zero: true,
        ticks: 5,
        tickFormat: (value: number) => approximate(value),
      },
      y: {
        label: "cached tokens",
        grid: true,
        zero: true,
        ticks: 5,
        tickFormat: (value: number) => approximate(value),
      },
      ariaLabel: `Cached tokens by prompt tokens of ${points.length} requests`,
      marks: [
        Plot.dot(points, { x: "input", y: "hits", r: 2.4, fill: "var(--c0)", fillOpacity: 0.4 }),
        Plot.tip(points, Plot.pointer({ x: "input", y: "hits", title: "title" })),
      ],
    });
  };
  onWidth(body, left, draw);
  getRequests(id, left)
    .then((answer) => {
      data = answer;
      const drawn = answer.columns["request"]?.length ?? 0;
      if (drawn < answer.total) note(`${integer(drawn)} of ${integer(answer.total)} requests, evenly drawn.`);
      draw(body.clientWidth);
    })
    .catch((error) => !left.aborted && note(error.message));
  return element;
}

function titleOf(columns: RequestsData["columns"], i: number): string {
  const times = Object.keys(latencies).flatMap((name) => {
    const ms = columns[name]?.[i];
    return typeof ms === "number" ? [`${latencies[name]} ${milliseconds(ms)}`] : [];
  });
  const [request, input, hits] = ["request", "inputTokens", "hitTokens"].map((name) => columns[name]?.[i] ?? 0);
  return [`request #${request}`, `${integer(hits)} of ${integer(input)} tokens cached`, ...times].join("\n");
}

export function commandCard(command: string): HTMLElement {
  const copy = async () => {
    await navigator.clipboard.writeText(command);
    button.textContent = "Copied";
    announce("The command is copied");
    setTimeout(() => {
      button.textContent = "Copy";
    }, 1500);
  };
  const button = h("button", { type: "button", click: copy }, "Copy");
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "The same run again"), button),
    h("pre", {}, h("code", {}, command)),
  );
}

/** Everything that was configured. */
function configurationCard(row: RunDetail["row"], report: Report, files: readonly string[]): HTMLElement {
  const { trace, policy, simulation, engine, seed, warmup } = report;
  const scalars = (values: Readonly<Record<string, unknown>> = {}) =>
    Object.entries(values).flatMap(([name, value]): [string, string][] =>
      value === null
        ? []
        : typeof value === "object"
          ? [[name, JSON.stringify(value).replace(/[{}"]/g, "").replaceAll(",", ", ")]]
          : [[name, String(value)]],
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
    ...scalars(simulation),
    ...scalars(engine),
    ["files", files.join(", ")],
  ];
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "Configuration")),
    h("dl", { class: "facts" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
