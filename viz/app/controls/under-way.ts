import type { BrokenRun, LiveRow } from "../../api.ts";
import type { Page } from "../page.ts";
import { linkTo } from "../route.ts";
import { isBroken } from "../server.ts";
import { h } from "./dom.ts";
import { integer, percent, perSecond, policyOf } from "./format.ts";

type State = LiveRow["state"] | "ended" | "lost";

/** What a program is at, in a word beside a mark that moves while it is under way. */
export const mark = (state: State, words: string = state) =>
  h("span", { class: `mark ${state}` }, h("span", { class: "dot", "aria-hidden": "true" }), words);

/** How much of it is done. */
export const share = (done: number, of: number) =>
  h("progress", { "aria-label": "Requests done", max: of, value: Math.min(done, of) });

/** The programs under way, above the saved runs; nothing where there is none. */
export function underWayCard({ live, left }: Page): HTMLElement {
  const list = h("ul", { class: "underway" });
  const card = h(
    "section",
    { class: "card", "aria-label": "Under way" },
    h("div", { class: "cardhead" }, h("h2", {}, "Under way")),
    list,
  );
  const items = new Map<string, Item>();
  const draw = () => {
    card.hidden = live.underWay.length === 0;
    for (const [id, { element }] of items)
      if (!live.underWay.some((row) => row.id === id)) {
        element.remove();
        items.delete(id);
      }
    live.underWay.forEach((row, i) => {
      const item = items.get(row.id) ?? new Item(row.id);
      items.set(row.id, item);
      item.show(row);
      if (list.children[i] !== item.element) list.insertBefore(item.element, list.children[i] ?? null);
    });
  };
  draw();
  live.watchUnderWay(draw, left);
  return card;
}

/** A program. It stays where it is when its figures change, so that the focus does. */
class Item {
  readonly element = h("li");
  readonly #link: HTMLAnchorElement;
  readonly #state = h("span");
  readonly #figures = h("span", { class: "figures" });

  constructor(id: string) {
    this.#link = h("a", { class: "id", href: linkTo("live", { id }) }, id);
    this.element.append(this.#state, this.#link, this.#figures);
  }

  show(row: LiveRow | BrokenRun): void {
    if (isBroken(row)) {
      this.#state.replaceChildren();
      this.#figures.replaceChildren(h("span", { class: "badge bad" }, `no live run: ${row.problem}`));
      return;
    }
    const { state, trace, requests, now } = row;
    const name = `${trace} · ${policyOf(row)}`;
    if (this.#link.textContent !== name) this.#link.textContent = name;
    this.#state.replaceChildren(mark(state));
    this.#figures.replaceChildren(...(now ? [share(now.requestsDone, requests), wordsOf(now, requests)] : []));
  }
}

function wordsOf(
  { requestsDone, hitRatio, running, waiting, throughput }: NonNullable<LiveRow["now"]>,
  of: number,
): string {
  const inTime = throughput
    ? [`${integer(running)} running`, `${integer(waiting)} waiting`, perSecond(throughput.requestsPerS)]
    : [];
  const words = [`${integer(requestsDone)} of ${integer(of)} requests`, `hit ratio ${percent(hitRatio["token"] ?? 0)}`];
  return [...words, ...inTime].join(" · ");
}
