import type { BrokenRun, LiveRow } from "../../api.ts";
import { integer, percent, perSecond, policyOf } from "../data/format.ts";
import { errorText, isBroken, request } from "../data/server.ts";
import { linkTo } from "../route.ts";
import type { ViewContext } from "../view.ts";
import { announce, h } from "./dom.ts";

type State = LiveRow["state"] | "ended" | "lost";

/** The state of a run with a mark, which is animated while the run is active. */
export const stateMark = (state: State, text: string = state) =>
  h("span", { class: `mark ${state}` }, h("span", { class: "dot", "aria-hidden": "true" }), text);

/** The share of requests that have finished. */
export const progressBar = (done: number, of: number) =>
  h("progress", { "aria-label": "Requests done", max: of, value: Math.min(done, of) });

/** The active runs, above the saved ones; hidden if there are none. */
export function activeRunsCard({ server, signal }: ViewContext): HTMLElement {
  const list = h("ul", { class: "active-runs" });
  const card = h(
    "section",
    { class: "card", "aria-label": "Active runs" },
    h("div", { class: "cardhead" }, h("h2", {}, "Active runs")),
    list,
  );
  const items = new Map<string, Item>();
  const draw = () => {
    card.hidden = server.activeRuns.length === 0;
    for (const [id, { element }] of items)
      if (!server.activeRuns.some((row) => row.id === id)) {
        element.remove();
        items.delete(id);
      }
    server.activeRuns.forEach((row, i) => {
      const item = items.get(row.id) ?? new Item(row.id);
      items.set(row.id, item);
      item.show(row);
      if (list.children[i] !== item.element) list.insertBefore(item.element, list.children[i] ?? null);
    });
  };
  draw();
  server.watchActiveRuns(draw, signal);
  return card;
}

/** An active run. Its elements are kept when its metrics change, and so is the focus. */
class Item {
  readonly element = h("li");
  readonly #link: HTMLAnchorElement;
  readonly #state = h("span");
  readonly #metrics = h("span", { class: "metrics" });

  constructor(id: string) {
    this.#link = h("a", { class: "id", href: linkTo("live", { id }) }, id);
    this.element.append(this.#state, this.#link, this.#metrics);
  }

  show(row: LiveRow | BrokenRun): void {
    if (isBroken(row)) {
      this.#state.replaceChildren();
      this.#metrics.replaceChildren(h("span", { class: "badge bad" }, `incomplete: ${row.problem}`));
      return;
    }
    const { state, trace, requests, now } = row;
    const name = `${trace} · ${policyOf(row)}`;
    if (this.#link.textContent !== name) this.#link.textContent = name;
    this.#state.replaceChildren(stateMark(state));
    if (state === "killed") this.#state.append(dismissButton(row.id));
    this.#metrics.replaceChildren(
      ...(now && requests !== null ? [progressBar(now.requestsDone, requests)] : []),
      ...(now ? [metricsText(now, requests)] : []),
    );
  }
}

/** Removes what a killed program has left. */
function dismissButton(id: string): HTMLElement {
  const click = async () => {
    try {
      const response = await request(`api/live/${encodeURIComponent(id)}`, { method: "DELETE" });
      announce(response.ok ? `Dismissed ${id}` : await errorText(response));
    } catch (error) {
      announce((error as Error).message);
    }
  };
  return h("button", { type: "button", "aria-label": `Dismiss ${id}`, click }, "Dismiss");
}

function metricsText(
  { requestsDone, hitRatio, running, waiting, throughput }: NonNullable<LiveRow["now"]>,
  of: number | null,
): string {
  const timed = throughput
    ? [`${integer(running)} running`, `${integer(waiting)} waiting`, perSecond(throughput.requestsPerS)]
    : [];
  const counts = [
    of === null ? `${integer(requestsDone)} requests` : `${integer(requestsDone)} of ${integer(of)} requests`,
    `hit ratio ${percent(hitRatio["token"] ?? 0)}`,
  ];
  return [...counts, ...timed].join(" · ");
}
