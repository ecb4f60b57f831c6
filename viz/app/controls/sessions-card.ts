import type { SessionRow } from "../../api.ts";
import { integer, milliseconds, percent } from "../data/format.ts";
import { getSessions } from "../data/server.ts";
import { linkTo } from "../route.ts";
import { h } from "./dom.ts";
import { Table } from "./table.ts";

/** The sessions of a run with the most requests; hidden if the run has none. */
export function sessionsCard(id: string, signal: AbortSignal): HTMLElement {
  const note = h("p", { class: "note" });
  const table = new Table<SessionRow>({
    title: "Sessions with the most requests",
    columns: [
      {
        ...{ name: "session", label: "Session", value: ({ session }: SessionRow) => session, numeric: false },
        show: ({ session, firstRequest }) =>
          h("a", { href: linkTo("request", { id, request: firstRequest }) }, `session ${session}`),
      },
      {
        name: "requests",
        label: "Requests",
        value: ({ requests }) => requests,
        show: ({ requests }) => integer(requests),
      },
      {
        ...{
          name: "arrival",
          label: "First arrival",
          csvLabel: "First arrival, ms",
          value: ({ firstNs }: SessionRow) => firstNs / 1e6,
        },
        show: ({ firstNs }) => milliseconds(firstNs / 1e6),
      },
      {
        ...{ name: "input", label: "Prompt tokens", value: ({ inputTokens }: SessionRow) => inputTokens },
        show: ({ inputTokens }) => integer(inputTokens),
      },
      {
        ...{
          name: "hits",
          label: "Hit ratio, tokens",
          value: ({ hitTokens, inputTokens }: SessionRow) => hitTokens / inputTokens,
        },
        show: ({ hitTokens, inputTokens }) => percent(hitTokens / inputTokens),
      },
    ],
    key: ({ session }) => session,
  });
  const card = h(
    "section",
    { class: "card", hidden: true },
    h("div", { class: "cardhead" }, h("h2", {}, "Sessions"), table.saveButtons()),
    table.element,
    note,
  );
  getSessions(id, signal)
    .then(({ total, sessions }) => {
      table.show(sessions);
      note.textContent = `${integer(sessions.length)} of ${integer(total)} sessions, those with the most requests. A link opens the requests of the session.`;
      card.hidden = false;
    })
    .catch(() => {
      // A trace without sessions has none to show.
    });
  return card;
}
