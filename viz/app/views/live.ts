import type { BrokenRun, LiveFigures, LiveRow, MomentData } from "../../api.ts";
import { BlockFigure } from "../charts/block-map.ts";
import { Icicle } from "../charts/icicle.ts";
import { type SeriesFigure, seriesFigure } from "../charts/series.ts";
import { ageText, type Colouring, colourings } from "../charts/shades.ts";
import { announce, h, segments } from "../controls/dom.ts";
import { approximate, integer, milliseconds, percent, perSecond, policyOf, when } from "../controls/format.ts";
import { mark, share } from "../controls/under-way.ts";
import { Newest } from "../newest.ts";
import type { Page } from "../page.ts";
import { linkTo, remember } from "../route.ts";
import { getLiveMoment, getLiveSeries, isBroken } from "../server.ts";
import { commandCard, type Tile, targets, tiles } from "./run.ts";

/** A program under way: what a saved run shows, as far as it has come, and moving. */
export function liveView(page: Page): void {
  const { root, params, live, left } = page;
  const id = params.get("id") ?? "";
  let shown: LiveRun | undefined;
  const draw = () => {
    const row = live.underWay.find((each) => each.id === id);
    if (row && !isBroken(row)) {
      shown ??= new LiveRun(page, row);
      shown.show(row);
    } else if (shown && !row) shown.end();
    else if (!shown) root.replaceChildren(...absent(page, id, row));
  };
  draw();
  live.watchUnderWay(draw, left);
  live.watch(draw, left);
}

/** It has ended, or never was. */
function absent({ params, live }: Page, id: string, row: BrokenRun | undefined): Node[] {
  const run = savedAs(live.rows, params.get("run"));
  return [
    h("h1", {}, "Live"),
    h(
      "p",
      { class: "problem", role: "alert" },
      row ? `${id}: ${row.problem}` : "This program is not under way any more.",
    ),
    h("p", {}, run === undefined ? h("a", { href: linkTo("runs") }, "All runs") : savedLink(run)),
  ];
}

const savedLink = (id: string) => h("a", { class: "button main", href: linkTo("run", { id }) }, "Open the saved run");

/** The run that came of it, or what was kept of it after a signal; of those saved since it began. */
function savedAs(
  rows: Page["live"]["rows"],
  run: string | null,
  startedAtMs = Number.NEGATIVE_INFINITY,
): string | undefined {
  const found = rows
    .filter(({ id, savedAtMs }) => (id === run || id === `${run}-interrupted`) && savedAtMs >= startedAtMs)
    .sort((a, b) => b.savedAtMs - a.savedAtMs);
  return found[0]?.id;
}

class LiveRun {
  readonly #page: Page;
  readonly #state = h("p", { class: "lead state" });
  readonly #ended = h("div", { role: "status" });
  readonly #tiles = h("div");
  readonly #series: SeriesFigure | undefined;
  readonly #cache: LiveCache;
  readonly #refresh: Newest<LiveRow, void>;
  #row: LiveRow;
  #hasEnded = false;
  #saved: string | undefined;

  constructor(page: Page, row: LiveRow) {
    const { root, left } = page;
    const { id, target, run, command } = row;
    this.#page = page;
    this.#row = row;
    // After a reload nobody else knows any more what it came to.
    remember({ run: run ?? undefined });
    if (target !== "cache") this.#series = seriesFigure(page, (...asked) => getLiveSeries(id, ...asked));
    this.#cache = new LiveCache(page, row);
    this.#refresh = new Newest(
      async ({ now }) => {
        await this.#series?.refresh();
        if (now) await this.#cache.refresh(now);
      },
      () => {},
      ({ message }) => {
        if (!this.#hasEnded) this.#cache.note(message);
      },
      left,
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
    const words = this.#page.live.isConnected ? undefined : "the dashboard does not answer; it stood so";
    this.#state.replaceChildren(mark(words ? "lost" : state, words), h("span", {}, aboutOf(row)));
    this.#tiles.replaceChildren(
      ...(now ? [tiles(headlines(row, now))] : [h("p", { class: "hint" }, "It is beginning.")]),
    );
    if (now) this.#tiles.prepend(share(now.requestsDone, requests));
    this.#refresh.ask(row);
  }

  end(): void {
    const { live } = this.#page;
    const { run, startedAtMs } = this.#row;
    const saved = savedAs(live.rows, run, startedAtMs);
    if (!this.#hasEnded) {
      this.#hasEnded = true;
      this.#cache.note("");
      this.#state.replaceChildren(mark("ended"), h("span", {}, aboutOf(this.#row)));
      announce("The run has ended");
    } else if (saved === this.#saved) return;
    this.#saved = saved;
    this.#ended.replaceChildren(
      h(
        "p",
        { class: "card over" },
        h("span", {}, run === null ? "It has ended; it was not to be saved." : "It has ended."),
        saved !== undefined && savedLink(saved),
      ),
    );
  }
}

const aboutOf = ({ target, startedAtMs }: LiveRow) => `${targets[target]} · started ${when(startedAtMs)}`;

function headlines({ requests, blocks, blockTokens, capacityTokens }: LiveRow, now: LiveFigures): Tile[] {
  const { requestsDone, timeNs, running, waiting, throughput, hitRatio, evictedBlocks, preemptions } = now;
  const { free, private: own, held, idle } = now.blocks;
  const tiles: Tile[] = [
    ["Requests done", integer(requestsDone), `of ${integer(requests)}`],
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
      "Blocks in use",
      integer(own + held),
      `${integer(idle)} cached, in no use; ${blocks === null ? "no limit" : `${integer(free)} free`}`,
    ],
    [
      "Cache",
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
      `${approximate(throughput.outputTokensPerS)} answer tokens/s`,
    ]);
  tiles.push(["Time of the run", milliseconds(timeNs / 1e6), "since its first moment"]);
  return tiles;
}

/** How the cache stands at the newest event, where events are told. */
class LiveCache {
  readonly element = h("section", { "aria-label": "The cache now" });
  readonly #id: string;
  readonly #left: AbortSignal;
  readonly #note = h("p", { class: "hint" });
  readonly #tree: Icicle;
  readonly #blocks: BlockFigure;
  readonly #figures: HTMLElement;
  #colouring: Colouring;
  #moment: MomentData | undefined;

  constructor({ params, left }: Page, { id, target, capacityTokens }: LiveRow) {
    this.#id = id;
    this.#left = left;
    const ages = ageText(target !== "cache");
    this.#colouring = colourings.find(({ value }) => value === params.get("colour"))?.value ?? "age";
    this.#tree = new Icicle({ title: "Cached prefixes now", roomTokens: capacityTokens ?? 0, ages }, left);
    this.#blocks = new BlockFigure("Blocks now", ages, left);
    const choose = (value: string) => {
      this.#colouring = value as Colouring;
      remember({ colour: value === "age" ? undefined : value });
      this.#draw();
    };
    const colours = segments("Colour", colourings, this.#colouring, choose);
    this.#figures = h(
      "div",
      { hidden: true },
      h("p", { class: "actions" }, colours),
      h("div", { class: "grid" }, this.#tree.element, this.#blocks.element),
    );
    this.element.append(this.#note, this.#figures);
  }

  async refresh({ events, eventsTold }: LiveFigures): Promise<void> {
    const isRead = this.#figures.matches(":hover") || this.#figures.querySelector(".drawn:focus-visible") !== null;
    if (eventsTold > 0 && !isRead) {
      this.#moment = await getLiveMoment(this.#id, this.#left);
      this.#figures.hidden = false;
      this.#draw();
    }
    this.note(noteOf(events, eventsTold));
  }

  note(words: string): void {
    this.#note.textContent = words;
  }

  #draw(): void {
    if (!this.#moment) return;
    const { tree, blocks } = this.#moment;
    this.#tree.show(tree, blocks.oldestNs, this.#colouring);
    this.#blocks.show(blocks, -1, this.#colouring);
  }
}

function noteOf(events: number | null, told: number): string {
  if (events === null) return "With --events, a single replica also shows its cache while it runs.";
  if (events > told)
    return `After ${integer(told)} events no more are told: the cache is shown as it stood then, ${integer(events - told)} events ago.`;
  return "";
}
