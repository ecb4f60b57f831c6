import type { EventText, LogData, MomentData, RunRow } from "../../api.ts";
import { h } from "../controls/dom.ts";
import { integer } from "../controls/format.ts";
import { BlockFigure } from "./block-map.ts";
import { Icicle } from "./icicle.ts";
import { type AgeText, ageText, type Colouring } from "./shades.ts";

/** Whether its events have times. */
export const hasClock = ({ firstNs, lastNs }: LogData): boolean => lastNs > firstNs;

/** A time in a log: where two events of a step differ by nothing, they say the same. */
export const timeText = (ns: number): string => `${(ns / 1e9).toFixed(3)} s`;

/** Few enough for the next event to be seen without scrolling. */
const shownBefore = 3;
/** Nobody reads a list that changes more often, and laying it out takes longer than all else in a frame. */
const listMs = 80;

/** How the cache of one run stands: what is in it, where, and what comes next. */
export class MomentView {
  readonly element: HTMLElement;
  readonly #log: LogData;
  readonly #facts = h("dl", { class: "readout" });
  readonly #next = h("p", { class: "next" });
  readonly #tree: Icicle;
  readonly #blocks: BlockFigure;
  readonly #list = h("ol", { class: "events", tabindex: 0 });
  readonly #go: (event: number) => void;
  #moment: MomentData | undefined;
  #listing: ReturnType<typeof setTimeout> | undefined;

  /** `name`: of the run, where there are two. */
  constructor(row: RunRow, log: LogData, name: string, go: (event: number) => void, left: AbortSignal) {
    this.#log = log;
    this.#go = go;
    const ages: AgeText = ageText(hasClock(log));
    const of = name === "" ? "" : ` of ${name}`;
    this.#tree = new Icicle({ title: `Cached prefixes${of}`, roomTokens: log.blocks * row.blockTokens, ages }, left);
    this.#blocks = new BlockFigure(`Blocks${of}`, ages, left);
    this.#list.setAttribute("aria-label", `Events${of}, before and after`);
    const events = h(
      "section",
      { class: "card" },
      h("div", { class: "cardhead" }, h("h2", {}, `Before and after${name === "" ? "" : `: ${name}`}`)),
      this.#list,
    );
    this.element = h(
      "section",
      { class: "moment", "aria-label": name || "The moment" },
      h("div", { class: "card head" }, name !== "" && h("h2", {}, name), this.#facts, this.#next),
      this.#tree.element,
      h("div", { class: "grid" }, this.#blocks.element, events),
    );
  }

  show(moment: MomentData, colouring: Colouring): void {
    this.#moment = moment;
    const { next, tree, blocks } = moment;
    this.#facts.replaceChildren(...this.#factsOf(moment).flatMap(([name, ...value]) => fact(name, value)));
    this.#next.replaceChildren(...nextWords(next[0]));
    this.#tree.show(tree, blocks.oldestNs, colouring);
    this.#blocks.show(blocks, next[0]?.block ?? -1, colouring);
    this.#listing ??= setTimeout(() => {
      this.#listing = undefined;
      if (this.#moment) this.#showList(this.#moment);
    }, listMs);
  }

  /** What has the focus passes it on to what comes next. */
  #showList({ before, next }: MomentData): void {
    const hadFocus = this.#list.querySelector(":focus-visible") !== null;
    this.#list.replaceChildren(
      ...before.slice(-shownBefore).map((each) => this.#row(each, "before")),
      ...next.map((each, i) => this.#row(each, i === 0 ? "now" : "after")),
      ...(next.length === 0 ? [h("li", { class: "end" }, "The log ends here.")] : []),
    );
    const now = this.#list.querySelector<HTMLElement>("[aria-current]") ?? this.#list;
    if (hadFocus) now.focus({ preventScroll: true });
  }

  colour(colouring: Colouring): void {
    if (this.#moment) this.show(this.#moment, colouring);
  }

  #factsOf({ event, timeNs, steps, counts, running }: MomentData): Fact[] {
    const facts: Fact[] = [["Event", `${integer(event)} of ${integer(this.#log.events)}`]];
    if (hasClock(this.#log)) facts.push(["Time", timeText(timeNs)]);
    facts.push(["Steps", integer(steps)]);
    const swatches = { private: "--c1", held: "--c0", idle: "--idle", free: "--free" };
    for (const [life, colour] of Object.entries(swatches))
      facts.push([`Blocks ${life}`, swatch(colour), integer(counts[life as keyof typeof counts])]);
    facts.push(["Running", running.length === 0 ? "none" : runningText(running)]);
    return facts;
  }

  #row({ event, timeNs, text }: EventText, when: "before" | "now" | "after"): HTMLElement {
    const time = hasClock(this.#log) ? timeText(timeNs) : "";
    const button = h(
      "button",
      { type: "button", click: () => this.#go(event), "aria-current": when === "now" && "step" },
      h("span", { class: "number" }, integer(event)),
      time !== "" && h("span", { class: "time" }, time),
      h("span", { class: "words" }, text),
    );
    return h("li", { class: when }, button);
  }
}

type Fact = readonly [name: string, ...value: (Node | string)[]];

const fact = (name: string, value: readonly (Node | string)[]) => [
  h("div", {}, h("dt", {}, name), h("dd", {}, ...value)),
];

function swatch(colour: string): HTMLElement {
  const element = h("span", { class: "swatch" });
  element.style.background = `var(${colour})`;
  return element;
}

/** As many as fit a line. */
function runningText(running: readonly number[]): string {
  const shown = running.slice(0, 3).map((request) => `#${request}`);
  return `${running.length}: ${shown.join(", ")}${running.length > shown.length ? " …" : ""}`;
}

function nextWords(next: EventText | undefined): (Node | string)[] {
  if (!next) return ["The log ends here."];
  const why = next.why === undefined ? [] : [h("span", { class: "why" }, next.why)];
  return [h("strong", {}, "Next: "), next.text, ...why];
}
