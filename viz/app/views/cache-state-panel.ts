import type { EventText, LogData, MomentData, RunRow } from "../../api.ts";
import { type AgeText, ageText, type ColourMode } from "../charts/block-colours.ts";
import { BlockMapFigure } from "../charts/block-map.ts";
import { Icicle } from "../charts/icicle.ts";
import { h } from "../controls/dom.ts";
import { integer } from "../data/format.ts";

/** Whether the events of a log have times. */
export const hasClock = ({ firstNs, lastNs }: LogData): boolean => lastNs > firstNs;

/** The time of an event, s. */
export const timeText = (ns: number): string => `${(ns / 1e9).toFixed(3)} s`;

/** Past events in the list; few enough that the next event is visible without scrolling. */
const pastEventCount = 3;
/** Least interval between updates of the event list, whose layout is the most expensive part of a frame. */
const listIntervalMs = 80;

/** The cache of one run at an event: counts, prefixes, blocks, and the events before and after. */
export class CacheStatePanel {
  readonly element: HTMLElement;
  readonly #log: LogData;
  readonly #facts = h("dl", { class: "readout" });
  readonly #next = h("p", { class: "next" });
  readonly #prefixes: Icicle;
  readonly #blocks: BlockMapFigure;
  readonly #list = h("ol", { class: "events", tabindex: 0 });
  readonly #go: (event: number) => void;
  #moment: MomentData | undefined;
  #listing: ReturnType<typeof setTimeout> | undefined;

  /** `name`: label of the run; "" if only one run is shown. `go` is called with the event that is clicked. */
  constructor(row: RunRow, log: LogData, name: string, go: (event: number) => void, signal: AbortSignal) {
    this.#log = log;
    this.#go = go;
    const ages: AgeText = ageText(hasClock(log));
    const of = name === "" ? "" : ` of ${name}`;
    this.#prefixes = new Icicle(
      { title: `Cached prefixes${of}`, capacityTokens: log.blocks * row.blockTokens, ages },
      signal,
    );
    this.#blocks = new BlockMapFigure(`Blocks${of}`, ages, signal);
    this.#list.setAttribute("aria-label", `Events${of}`);
    const events = h(
      "section",
      { class: "card" },
      h("div", { class: "cardhead" }, h("h2", {}, `Events${of}`)),
      this.#list,
    );
    this.element = h(
      "section",
      { class: "cache-state", "aria-label": name || "Cache state" },
      h("div", { class: "card head" }, name !== "" && h("h2", {}, name), this.#facts, this.#next),
      this.#prefixes.element,
      h("div", { class: "grid" }, this.#blocks.element, events),
    );
  }

  show(moment: MomentData, colourMode: ColourMode): void {
    this.#moment = moment;
    const { next, tree, blocks } = moment;
    this.#facts.replaceChildren(...this.#factsOf(moment).flatMap(([name, ...value]) => fact(name, value)));
    this.#next.replaceChildren(...nextText(next[0]));
    this.#prefixes.show(tree, blocks.oldestNs, colourMode);
    this.#blocks.show(blocks, next[0]?.block ?? -1, colourMode);
    this.#listing ??= setTimeout(() => {
      this.#listing = undefined;
      if (this.#moment) this.#showList(this.#moment);
    }, listIntervalMs);
  }

  /** If an event had the focus, the next event has it afterwards. */
  #showList({ before, next }: MomentData): void {
    const hadFocus = this.#list.querySelector(":focus-visible") !== null;
    this.#list.replaceChildren(
      ...before.slice(-pastEventCount).map((each) => this.#row(each, "before")),
      ...next.map((each, i) => this.#row(each, i === 0 ? "now" : "after")),
      ...(next.length === 0 ? [h("li", { class: "end" }, "End of the log.")] : []),
    );
    const now = this.#list.querySelector<HTMLElement>("[aria-current]") ?? this.#list;
    if (hadFocus) now.focus({ preventScroll: true });
  }

  setColourMode(colourMode: ColourMode): void {
    if (this.#moment) this.show(this.#moment, colourMode);
  }

  #factsOf({ event, timeNs, steps, counts, running }: MomentData): Fact[] {
    const facts: Fact[] = [["Event", `${integer(event)} of ${integer(this.#log.events)}`]];
    if (hasClock(this.#log)) facts.push(["Time", timeText(timeNs)]);
    facts.push(["Steps", integer(steps)]);
    for (const { field, label, colour } of blockCounts) facts.push([label, swatch(colour), integer(counts[field])]);
    facts.push(["Running requests", running.length === 0 ? "none" : runningText(running)]);
    return facts;
  }

  #row({ event, timeNs, text }: EventText, when: "before" | "now" | "after"): HTMLElement {
    const time = hasClock(this.#log) ? timeText(timeNs) : "";
    const button = h(
      "button",
      { type: "button", click: () => this.#go(event), "aria-current": when === "now" && "step" },
      h("span", { class: "number" }, integer(event)),
      time !== "" && h("span", { class: "time" }, time),
      h("span", { class: "text" }, text),
    );
    return h("li", { class: when }, button);
  }
}

const blockCounts = [
  { field: "private", label: "Private blocks", colour: "--c1" },
  { field: "held", label: "Cached, referenced", colour: "--c0" },
  { field: "idle", label: "Cached, idle", colour: "--idle" },
  { field: "free", label: "Free blocks", colour: "--free" },
] as const;

type Fact = readonly [name: string, ...value: (Node | string)[]];

const fact = (name: string, value: readonly (Node | string)[]) => [
  h("div", {}, h("dt", {}, name), h("dd", {}, ...value)),
];

function swatch(colour: string): HTMLElement {
  const element = h("span", { class: "swatch" });
  element.style.background = `var(${colour})`;
  return element;
}

/** The number of running requests and the first of them. */
function runningText(running: readonly number[]): string {
  const shown = running.slice(0, 3).map((request) => `#${request}`);
  return `${running.length}: ${shown.join(", ")}${running.length > shown.length ? " …" : ""}`;
}

function nextText(next: EventText | undefined): (Node | string)[] {
  if (!next) return ["End of the log."];
  const why = next.why === undefined ? [] : [h("span", { class: "why" }, next.why)];
  return [h("strong", {}, "Next: "), next.text, ...why];
}
