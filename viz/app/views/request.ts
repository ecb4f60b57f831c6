import type { RequestHistory, SessionTurn } from "../../api.ts";
import { requestTimeline } from "../charts/request-timeline.ts";
import { sessionFigure } from "../charts/session-turns.ts";
import { h } from "../controls/dom.ts";
import { noRunNamed } from "../controls/no-run.ts";
import { requestField } from "../controls/request-field.ts";
import { Table } from "../controls/table.ts";
import { integer, milliseconds, percent } from "../data/format.ts";
import { missReasonLabels } from "../data/miss-shares.ts";
import { phasesOf } from "../data/request-times.ts";
import { runLabels } from "../data/run-labels.ts";
import { getHistory } from "../data/server.ts";
import { linkTo } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

/** The history of one request in a run, or in two runs of its trace, and the requests of its session. */
export const requestView: View = { name: "request", title: "Request", show: showRequest };

/** A run, its label and what it has of the request. */
interface Side {
  readonly id: string;
  readonly name: string;
  readonly history: RequestHistory;
}

async function showRequest(context: ViewContext): Promise<void> {
  const { root, params, signal } = context;
  const ids = [params.get("id"), params.get("with")].filter((id) => id !== null && id !== "") as string[];
  if (ids.length === 0) {
    root.append(...noRunNamed("Request"));
    return;
  }
  const number = Number(params.get("request") ?? Number.NaN);
  const open = (request: number) => {
    location.hash = requestLink(ids, request);
  };
  root.append(h("h1", {}, Number.isInteger(number) ? `Request #${number}` : "Request"), lead(ids));
  root.append(h("div", { class: "bar" }, requestField(open)));
  if (!Number.isInteger(number) || number < 0) {
    root.append(h("p", { class: "problem", role: "alert" }, "The address names no request."));
    return;
  }
  const loading = h("p", { class: "hint" }, "Loading the request …");
  root.append(loading);
  try {
    const histories = await Promise.all(ids.map((id) => getHistory(id, number, signal)));
    if (signal.aborted) return;
    loading.remove();
    const labels = namesOf(context, ids);
    drawRequest(
      context,
      histories.map((history, i) => ({ id: ids[i], name: labels[i], history })),
      open,
    );
  } catch (error) {
    if (signal.aborted) return;
    loading.remove();
    root.append(
      h("p", { class: "problem", role: "alert" }, `This request cannot be shown: ${(error as Error).message}`),
    );
  }
}

const requestLink = ([id, other]: readonly string[], request: number) =>
  linkTo("request", { id, with: other, request });

const lead = (ids: readonly string[]) =>
  h("p", { class: "lead" }, ...ids.flatMap((id, i) => [i > 0 && " and ", h("a", { href: linkTo("run", { id }) }, id)]));

/** Labels that distinguish the runs; their ids, if they are equal or unknown. */
function namesOf({ server }: ViewContext, ids: readonly string[]): string[] {
  const rows = ids.map((id) => server.rows.find((row) => row.id === id));
  if (rows.some((row) => row === undefined)) return [...ids];
  const labels = runLabels(rows as (typeof server.rows)[number][]);
  const names = ids.map((id) => labels.get(id)!);
  return new Set(names).size === names.length ? names : [...ids];
}

function drawRequest({ root, signal }: ViewContext, sides: readonly Side[], open: (request: number) => void): void {
  const timelines = sides.map(({ name, history }) => ({ name, phases: phasesOf(history.columns) }));
  if (timelines.some(({ phases }) => phases.length > 0)) root.append(requestTimeline(timelines, signal));
  root.append(factsCard(sides), ...sides.map((side) => eventsCard(side, sides.length > 1)));
  const [{ id, history }] = sides;
  if (history.session.length > 1) {
    const ids = sides.map((side) => side.id);
    root.append(sessionFigure(history.session, open, signal), sessionCard(ids, history));
  } else
    root.append(
      h("p", { class: "hint" }, `No other request of ${id} is of the same session, or the trace has no sessions.`),
    );
}

/** A row of the table of facts, with a value for each run. */
interface Fact {
  readonly name: string;
  readonly values: readonly string[];
}

function factsCard(sides: readonly Side[]): HTMLElement {
  const table = new Table<Fact>({
    title: "Times and tokens of the request",
    columns: [
      { name: "name", label: "Metric", value: ({ name }) => name, numeric: false },
      ...sides.map(({ name }, i) => ({
        ...{ name: `value${i}`, label: sides.length > 1 ? name : "Value", numeric: true },
        value: ({ values }: Fact) => values[i],
      })),
    ],
    key: ({ name }) => name,
  });
  table.show(factsOf(sides));
  const withoutLog = sides.filter(({ history }) => history.log === null);
  const notes = withoutLog.map(({ name, history }) => `${name}: no miss reasons, ${history.noLog}.`);
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "Times and tokens"), table.saveButtons()),
    table.element,
    h("p", { class: "note", hidden: notes.length === 0 }, notes.join(" ")),
  );
}

function factsOf(sides: readonly Side[]): Fact[] {
  const column = (name: string, label: string, text: (value: number) => string): Fact => ({
    name: label,
    values: sides.map(({ history }) => {
      const value = history.columns[name];
      return value === null || value === undefined ? "–" : text(value);
    }),
  });
  const sinceStart = (ns: number) => `${(ns / 1e9).toFixed(3)} s`;
  const reasons = [...new Set(sides.flatMap(({ history }) => Object.keys(history.log?.missTokens ?? {})))];
  const all = [
    column("arrivalNs", "arrival", sinceStart),
    column("admittedNs", "admitted", sinceStart),
    column("firstTokenNs", "first token", sinceStart),
    column("finishedNs", "finished", sinceStart),
    column("queueMs", "queueing time", milliseconds),
    column("ttftMs", "TTFT", milliseconds),
    column("tpotMs", "TPOT", milliseconds),
    column("e2eMs", "end-to-end latency", milliseconds),
    column("inputTokens", "prompt tokens", integer),
    column("hitTokens", "cached tokens", integer),
    column("hitRatio", "hit ratio, tokens", percent),
    ...reasons.map((reason) => ({
      name: `missed tokens, ${missReasonLabels[reason] ?? reason}`,
      values: sides.map(({ history }) => (history.log ? integer(history.log.missTokens[reason] ?? 0) : "–")),
    })),
    column("outputTokens", "output tokens", integer),
    column("replica", "replica", String),
    column("preemptions", "preemptions", integer),
    column("refused", "refused", (value) => (value === 1 ? "yes" : "no")),
  ];
  return all.filter(({ values }) => values.some((value) => value !== "–"));
}

const eventTexts: Readonly<Record<string, string>> = {
  admit: "admitted",
  preempt: "preempted",
  finish: "finished",
  refuse: "refused",
};

/** Links into time travel, where the events of the run were saved. */
function eventsCard({ id, name, history: { log } }: Side, isOfTwo: boolean): HTMLElement {
  if (!log) return h("div");
  const items = log.events.map(({ event, timeNs, kind }) =>
    h(
      "li",
      {},
      h("a", { href: linkTo("travel", { id, event }) }, eventTexts[kind] ?? kind),
      ` at ${milliseconds(timeNs / 1e6)}`,
    ),
  );
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, isOfTwo ? `Events in ${name}` : "Events")),
    h("p", { class: "hint" }, "A link opens the state of the cache before the event."),
    h("ul", {}, ...items),
  );
}

/** The requests of the session; the first run has their tokens and times. */
function sessionCard(ids: readonly string[], { request: shown, session }: RequestHistory): HTMLElement {
  const hasTimes = session.some(({ ttftMs }) => ttftMs !== null);
  const table = new Table<SessionTurn>({
    title: "Requests of the session",
    columns: [
      {
        ...{ name: "request", label: "Request", value: ({ request }: SessionTurn) => request },
        show: ({ request }) =>
          request === shown ? `#${request}` : h("a", { href: requestLink(ids, request) }, `#${request}`),
      },
      {
        ...{
          name: "arrival",
          label: "Arrival",
          csvLabel: "Arrival, ms",
          value: ({ arrivalNs }: SessionTurn) => arrivalNs / 1e6,
        },
        show: ({ arrivalNs }) => milliseconds(arrivalNs / 1e6),
      },
      {
        name: "input",
        label: "Prompt tokens",
        value: ({ inputTokens }) => inputTokens,
        show: ({ inputTokens }) => integer(inputTokens),
      },
      {
        name: "hits",
        label: "Cached tokens",
        value: ({ hitTokens }) => hitTokens,
        show: ({ hitTokens }) => integer(hitTokens),
      },
      ...(hasTimes
        ? [
            {
              ...{ name: "ttft", label: "TTFT", csvLabel: "TTFT, ms", value: ({ ttftMs }: SessionTurn) => ttftMs },
              show: ({ ttftMs }: SessionTurn) => (ttftMs === null ? "–" : milliseconds(ttftMs)),
            },
          ]
        : []),
    ],
    key: ({ request }) => request,
    rowClass: ({ request }) => (request === shown ? "selected" : ""),
  });
  table.show(session);
  return h(
    "section",
    { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, "All requests of the session"), table.saveButtons()),
    table.element,
  );
}
