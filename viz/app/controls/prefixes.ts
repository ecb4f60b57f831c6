import type { PrefixData, PrefixRow } from "../../api.ts";
import { linkTo } from "../route.ts";
import { getPrefixes } from "../server.ts";
import { h } from "./dom.ts";
import { approximate, integer, percent } from "./format.ts";
import { type Column, Table } from "./table.ts";

/** What of the cache was worth its room, and what was not; of runs that have their events. */
export function prefixesCard(id: string, files: readonly string[], left: AbortSignal): HTMLElement {
  const body = h("div", {}, h("p", { class: "hint" }, "Following every block through the log…"));
  const element = h(
    "section",
    { class: "card", "aria-label": "Prefixes" },
    h("div", { class: "cardhead" }, h("h2", {}, "Which prefixes were worth their room")),
    body,
  );
  if (!files.includes("events.parquet")) {
    body.replaceChildren(
      h("p", { class: "hint" }, "Saved with --events, a run also says which prefixes were worth their room, and why."),
    );
    return element;
  }
  const load = async () => {
    try {
      body.replaceChildren(...tablesOf(id, await getPrefixes(id, left)));
    } catch (error) {
      if (!left.aborted) body.replaceChildren(h("p", { class: "hint" }, (error as Error).message));
    }
  };
  onSight(element, left, () => void load());
  return element;
}

/** Calls back when an element comes near to what is seen: the log of a large run takes the server seconds to read. */
function onSight(element: HTMLElement, left: AbortSignal, seen: () => void): void {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      seen();
    },
    { rootMargin: "300px" },
  );
  observer.observe(element);
  left.addEventListener("abort", () => observer.disconnect());
}

function tablesOf(id: string, { valuable, wasted, tokenSeconds, wastedTokenSeconds }: PrefixData): Node[] {
  const share = tokenSeconds > 0 ? wastedTokenSeconds / tokenSeconds : 0;
  const both = [
    { title: "The most valuable prefixes", rows: valuable, sort: "-saved" },
    { title: "The most wasted prefixes", rows: wasted, sort: "-wasted" },
  ];
  return [
    h(
      "p",
      { class: "hint worth" },
      `Of all the room that cached tokens took, ${percent(share)} was taken after they were found for the last time ` +
        `(${approximate(wastedTokenSeconds)} of ${approximate(tokenSeconds)} token-seconds).`,
    ),
    h(
      "div",
      { class: "pair tables" },
      ...both.map(({ title, rows, sort }) => {
        const table = new Table<PrefixRow>({ title, columns: columnsOf(id), sort });
        table.show(rows);
        return h("div", {}, h("div", { class: "cardhead" }, h("h3", {}, title), table.csvButton()), table.element);
      }),
    ),
  ];
}

const columnsOf = (id: string): Column<PrefixRow>[] => [
  {
    name: "request",
    label: "First of",
    value: ({ request }) => request,
    show: ({ request, event }) => h("a", { href: linkTo("travel", { id, event }) }, `#${request}`),
  },
  {
    name: "from",
    label: "Tokens",
    value: ({ fromToken }) => fromToken,
    show: ({ fromToken, tokens }) => `${integer(fromToken)}–${integer(fromToken + tokens)}`,
  },
  { name: "hits", label: "Found", value: ({ hits }) => hits, show: ({ hits }) => integer(hits) },
  {
    name: "saved",
    label: "Tokens saved",
    value: ({ savedTokens }) => savedTokens,
    show: ({ savedTokens }) => approximate(savedTokens),
  },
  {
    name: "wasted",
    label: "Token-seconds wasted",
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
