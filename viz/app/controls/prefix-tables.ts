import type { PrefixData, PrefixRow } from "../../api.ts";
import { approximate, integer, percent } from "../data/format.ts";
import { getPrefixes } from "../data/server.ts";
import { linkTo } from "../route.ts";
import { h } from "./dom.ts";
import { type Column, Table } from "./table.ts";

/** The prefixes with the most hit tokens, and those with the most unused cache occupancy; of runs with an event log. */
export function prefixesCard(id: string, files: readonly string[], signal: AbortSignal): HTMLElement {
  const body = h("div", {}, h("p", { class: "hint" }, "Reading the event log…"));
  const element = h(
    "section",
    { class: "card", "aria-label": "Prefixes" },
    h("div", { class: "cardhead" }, h("h2", {}, "Prefixes by hit tokens and cache occupancy")),
    body,
  );
  if (!files.includes("events.parquet")) {
    body.replaceChildren(
      h("p", { class: "hint" }, "Runs that are saved with --events show hit tokens and cache occupancy by prefix."),
    );
    return element;
  }
  const load = async () => {
    try {
      body.replaceChildren(...tablesOf(id, await getPrefixes(id, signal)));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(h("p", { class: "hint" }, (error as Error).message));
    }
  };
  onVisible(element, signal, () => void load());
  return element;
}

/** Calls `load` when an element is about to scroll into view: reading the log of a large run takes seconds. */
function onVisible(element: HTMLElement, signal: AbortSignal, load: () => void): void {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      load();
    },
    { rootMargin: "300px" },
  );
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect());
}

function tablesOf(id: string, { valuable, wasted, tokenSeconds, wastedTokenSeconds }: PrefixData): Node[] {
  const share = tokenSeconds > 0 ? wastedTokenSeconds / tokenSeconds : 0;
  const tables = [
    { title: "Prefixes with the most hit tokens", rows: valuable, sort: "-saved" },
    { title: "Prefixes with the most unused occupancy", rows: wasted, sort: "-wasted" },
  ];
  return [
    h(
      "p",
      { class: "hint waste" },
      `${percent(share)} of the cache occupancy (tokens × time) is after the last hit of a block, hence unused: ` +
        `${approximate(wastedTokenSeconds)} of ${approximate(tokenSeconds)} token-seconds.`,
    ),
    h(
      "div",
      { class: "pair tables" },
      ...tables.map(({ title, rows, sort }) => {
        const table = new Table<PrefixRow>({ title, columns: columnsOf(id), sort });
        table.show(rows);
        return h("div", {}, h("div", { class: "cardhead" }, h("h3", {}, title), table.saveButtons()), table.element);
      }),
    ),
  ];
}

const columnsOf = (id: string): Column<PrefixRow>[] => [
  {
    name: "request",
    label: "Cached by",
    value: ({ request }) => request,
    show: ({ request, event }) => h("a", { href: linkTo("travel", { id, event }) }, `#${request}`),
  },
  {
    name: "from",
    label: "Tokens",
    value: ({ fromToken }) => fromToken,
    show: ({ fromToken, tokens }) => `${integer(fromToken)}–${integer(fromToken + tokens)}`,
  },
  { name: "hits", label: "Hits", value: ({ hits }) => hits, show: ({ hits }) => integer(hits) },
  {
    name: "saved",
    label: "Hit tokens",
    value: ({ savedTokens }) => savedTokens,
    show: ({ savedTokens }) => approximate(savedTokens),
  },
  {
    name: "wasted",
    label: "Unused token-seconds",
    value: ({ wastedTokenSeconds }) => wastedTokenSeconds,
    show: ({ wastedTokenSeconds, tokenSeconds }) =>
      `${approximate(wastedTokenSeconds)} of ${approximate(tokenSeconds)}`,
  },
  {
    name: "evicted",
    label: "Evicted",
    value: ({ timesEvicted }) => timesEvicted,
    show: ({ timesEvicted, timesCached }) => `${integer(timesEvicted)} of ${integer(timesCached)}`,
    wide: true,
  },
];
