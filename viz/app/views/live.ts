import type { BrokenRun, LiveMetrics, LiveRow, MomentData } from "../../api.ts";
import { ageText, type ColourMode, colourModes } from "../charts/block-colours.ts";
import { BlockMapFigure } from "../charts/block-map.ts";
import { Icicle } from "../charts/icicle.ts";
import { type SeriesFigure, timeSeriesFigure } from "../charts/time-series.ts";
import { progressBar, stateMark } from "../controls/active-runs.ts";
import { commandCard } from "../controls/command-card.ts";
import { announce, h, segments } from "../controls/dom.ts";
import { metricTiles, type Tile } from "../controls/metric-tiles.ts";
import { noRunNamed } from "../controls/no-run.ts";
import { refusedText, utilisationTiles } from "../controls/run-tiles.ts";
import {
  approximate,
  dateText,
  integer,
  milliseconds,
  percent,
  perSecond,
  policyOf,
  targetText,
} from "../data/format.ts";
import { LatestRequest } from "../data/latest-request.ts";
import { getLiveMoment, getLiveSeries, isBroken } from "../data/server.ts";
import { linkTo, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** One active run: its metrics, time series and cache, updated while it runs. */
export const liveView: View = { name: "live", title: "Live", show: showLive };

function showLive(context: ViewContext): void {
  const { root, params, server, signal } = context;
  const id = params.get("id") ?? "";
  if (id === "") {
    root.append(...noRunNamed("Live"));
    return;
  }
  let shown: LiveRun | undefined;
  const draw = () => {
    const row = server.activeRuns.find((each) => each.id === id);
    if (row && !isBroken(row)) {
      shown ??= new LiveRun(context, row);
      shown.show(row);
    } else if (shown && !row) shown.end();
    else if (!shown) root.replaceChildren(...notActive(context, id, row));
  };
  draw();
  server.watchActiveRuns(draw, signal);
  server.watch(draw, signal);
}

/** For an id that is not that of an active run: it has ended, or its state is unreadable. */
function notActive({ params, server }: ViewContext, id: string, row: BrokenRun | undefined): Node[] {
  const run = savedAs(server.rows, params.get("run"));
  return [
    h("h1", {}, "Live"),
    h("p", { class: "problem", role: "alert" }, row ? `${id}: ${row.problem}` : "This run is not active."),
    h("p", {}, run === undefined ? h("a", { href: linkTo("runs") }, "All runs") : savedLink(run)),
  ];
}

const savedLink = (id: string) => h("a", { class: "button main", href: linkTo("run", { id }) }, "Open the saved run");

/** The id of the saved run, which ends in "-interrupted" after a signal; of the runs saved since it started. */
function savedAs(
  rows: ViewContext["server"]["rows"],
  run: string | null,
  startedAtMs = Number.NEGATIVE_INFINITY,
): string | undefined {
  const found = rows
    .filter(({ id, savedAtMs }) => (id === run || id === `${run}-interrupted`) && savedAtMs >= startedAtMs)
    .sort((a, b) => b.savedAtMs - a.savedAtMs);
  return found[0]?.id;
}

class LiveRun {
  readonly #context: ViewContext;
  readonly #state = h("p", { class: "lead state" });
  readonly #ended = h("div", { role: "status" });
  readonly #tiles = h("div");
  readonly #series: SeriesFigure | undefined;
  readonly #cache: LiveCache;
  readonly #refresh: LatestRequest<LiveRow, void>;
  #row: LiveRow;
  #hasEnded = false;
  #saved: string | undefined;

  constructor(context: ViewContext, row: LiveRow) {
    const { root, signal } = context;
    const { id, target, run, command } = row;
    this.#context = context;
    this.#row = row;
    // After the run has ended and the page was reloaded, the URL is the only place with the name of the saved run.
    updateRoute({ run: run ?? undefined });
    if (target !== "cache") this.#series = timeSeriesFigure(context, (...args) => getLiveSeries(id, ...args));
    this.#cache = new LiveCache(context, row);
    this.#refresh = new LatestRequest(
      async ({ now }) => {
        await this.#series?.refresh();
        if (now) await this.#cache.refresh(now);
      },
      () => {},
      ({ message }) => {
        if (!this.#hasEnded) this.#cache.note(message);
      },
      signal,
    );
    root.replaceChildren(
      h("h1", {}, `${row.trace} · ${policyOf(row)}`),
      this.#state,
      this.#ended,
      this.#tiles,
      ...(this.#series ? [this.#series.element] : []),
      this.#cache.element,
      commandCard(command),
    );
  }

  show(row: LiveRow): void {
    this.#row = row;
    const { now, state, requests } = row;
    const lost = this.#context.server.isConnected ? undefined : "server not reachable; last known state";
    this.#state.replaceChildren(stateMark(lost ? "lost" : state, lost), h("span", {}, aboutOf(row)));
    this.#tiles.replaceChildren(
      ...(now ? [metricTiles(metricsOf(row, now))] : [h("p", { class: "hint" }, "Starting.")]),
    );
    if (now && requests !== null) this.#tiles.prepend(progressBar(now.requestsDone, requests));
    this.#refresh.request(row);
  }

  end(): void {
    const { server } = this.#context;
    const { run, startedAtMs } = this.#row;
    const saved = savedAs(server.rows, run, startedAtMs);
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.#cache.note("");
      this.#state.replaceChildren(stateMark("ended"), h("span", {}, aboutOf(this.#row)));
      announce("The run has ended");
    } else if (saved === this.#saved) return;
    this.#saved = saved;
    this.#ended.replaceChildren(
      h(
        "p",
        { class: "card ended" },
        h("span", {}, run === null ? "The run has ended and was not saved." : "The run has ended."),
        saved !== undefined && savedLink(saved),
      ),
    );
  }
}

const aboutOf = ({ target, startedAtMs }: LiveRow) => `${targetText(target)} · started ${dateText(startedAtMs)}`;

function metricsOf({ requests, blocks, blockTokens, capacityTokens }: LiveRow, now: LiveMetrics): Tile[] {
  const { requestsDone, timeNs, running, waiting, throughput, hitRatio, evictedBlocks, preemptions } = now;
  const { free, private: privateBlocks, held: referenced, idle } = now.blocks;
  const tiles: Tile[] = [
    ["Requests done", integer(requestsDone), requests === null ? "" : `of ${integer(requests)}`],
    [
      "Hit ratio, tokens",
      percent(hitRatio["token"] ?? 0),
      `${approximate(now.hitTokens)} of ${approximate(now.lookupTokens)} tokens`,
    ],
    [
      "Hit ratio, blocks",
      percent(hitRatio["block"] ?? 0),
      `mean of requests ${percent(hitRatio["requestMeanBlock"] ?? 0)}`,
    ],
    [
      "Referenced blocks",
      integer(privateBlocks + referenced),
      `${integer(idle)} idle, ${blocks === null ? "no limit" : `${integer(free)} free`}`,
    ],
    [
      "Cache size",
      capacityTokens === null ? "unlimited" : `${approximate(capacityTokens)} tokens`,
      blocks === null ? `blocks of ${blockTokens} tokens` : `${integer(blocks)} blocks of ${blockTokens}`,
    ],
    ["Evicted blocks", integer(evictedBlocks), `${integer(preemptions)} preemptions`],
  ];
  if (timeNs === null) return tiles;
  tiles.splice(1, 0, ["Running", integer(running), `${integer(waiting)} waiting`]);
  if (throughput)
    tiles.push([
      "Throughput",
      perSecond(throughput.requestsPerS),
      `${approximate(throughput.outputTokensPerS)} output tokens/s`,
    ]);
  tiles.push(...serviceTiles(now));
  tiles.push(["Time", milliseconds(timeNs / 1e6), "since the start of the run"]);
  return tiles;
}

/** SLO, utilisation, balance and refusals so far. */
function serviceTiles({ slo, replicas = [], refusals = {} }: LiveMetrics): Tile[] {
  const tiles: Tile[] = [];
  if (slo)
    tiles.push([
      "Goodput",
      perSecond(slo.goodputRequestsPerS),
      `${percent(slo.attained)} of ended requests meet the SLO`,
    ]);
  tiles.push(...utilisationTiles(replicas));
  const counts = replicas.map(({ requests }) => requests);
  const total = counts.reduce((sum, each) => sum + each, 0);
  if (counts.length > 1 && total > 0)
    tiles.push([
      "Replica balance",
      `× ${((Math.max(...counts) * counts.length) / total).toFixed(2)}`,
      `requests of the busiest ÷ mean: ${counts.map(integer).join(", ")}`,
    ]);
  const refused = Object.values(refusals).reduce((sum, each) => sum + each, 0);
  if (refused > 0) tiles.push(["Refused", integer(refused), refusedText(refused, refusals)]);
  return tiles;
}

/** The prefixes and the blocks of the cache at the newest event; hidden for a run without events. */
class LiveCache {
  readonly element = h("section", { "aria-label": "Current cache" });
  readonly #id: string;
  readonly #signal: AbortSignal;
  readonly #note = h("p", { class: "hint" });
  readonly #prefixes: Icicle;
  readonly #blocks: BlockMapFigure;
  readonly #figures: HTMLElement;
  #colourMode: ColourMode;
  #moment: MomentData | undefined;

  constructor({ params, signal }: ViewContext, { id, target, capacityTokens }: LiveRow) {
    this.#id = id;
    this.#signal = signal;
    const ages = ageText(target !== "cache");
    this.#colourMode = colourModes.find(({ value }) => value === params.get("colour"))?.value ?? "age";
    this.#prefixes = new Icicle({ title: "Cached prefixes now", capacityTokens: capacityTokens ?? 0, ages }, signal);
    this.#blocks = new BlockMapFigure("Blocks now", ages, signal);
    const setColourMode = (value: string) => {
      this.#colourMode = value as ColourMode;
      updateRoute({ colour: value === "age" ? undefined : value });
      this.#draw();
    };
    const colours = segments("Colour", colourModes, this.#colourMode, setColourMode);
    this.#figures = h(
      "div",
      { hidden: true },
      h("p", { class: "actions" }, colours),
      h("div", { class: "grid" }, this.#prefixes.element, this.#blocks.element),
    );
    this.element.append(this.#note, this.#figures);
  }

  /** Does not redraw figures that the pointer or the keyboard is reading. */
  async refresh({ events, eventsWritten }: LiveMetrics): Promise<void> {
    const isRead =
      this.#figures.matches(":hover") || this.#figures.querySelector(".canvas-figure:focus-visible") !== null;
    if (eventsWritten > 0 && !isRead) {
      this.#moment = await getLiveMoment(this.#id, this.#signal);
      this.#figures.hidden = false;
      this.#draw();
    }
    this.note(noteOf(events, eventsWritten));
  }

  note(text: string): void {
    this.#note.textContent = text;
  }

  #draw(): void {
    if (!this.#moment) return;
    const { tree, blocks } = this.#moment;
    this.#prefixes.show(tree, blocks.oldestNs, this.#colourMode);
    this.#blocks.show(blocks, -1, this.#colourMode);
  }
}

function noteOf(events: number | null, published: number): string {
  if (events === null) return "With --events, the cache of a single replica is shown while it runs.";
  if (events > published)
    return `Only the first ${integer(published)} events are published: the cache is shown as of ${integer(events - published)} events ago.`;
  return "";
}
