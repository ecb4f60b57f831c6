import type { BrokenRun, RunRow } from "../../api.ts";
import { activeRunsCard } from "../controls/active-runs.ts";
import { h } from "../controls/dom.ts";
import { refusedBadge } from "../controls/refused-badge.ts";
import { type Column, Table } from "../controls/table.ts";
import { approximate, dateText, integer, milliseconds, percent, policyOf } from "../data/format.ts";
import { isBroken } from "../data/server.ts";
import { idList, idsIn, linkTo, updateRoute } from "../route.ts";
import type { View, ViewContext } from "../view.ts";

type Row = RunRow | BrokenRun;

/** A column that has values of readable runs only. */
function column(
  name: string,
  label: string,
  of: (row: RunRow) => string | number | undefined,
  show: (value: number) => string = String,
  wide = false,
): Column<Row> {
  const value = (row: Row) => (isBroken(row) ? undefined : of(row));
  const text = (row: Row) => {
    const found = value(row);
    if (found === undefined) return "–";
    return typeof found === "number" ? show(found) : found;
  };
  return { name, label, value, show: text, wide };
}

/** All saved runs: search, sort, selection for a comparison. */
export const runsView: View = { name: "runs", title: "Runs", menuOrder: 1, show: showRuns };

function showRuns(context: ViewContext): void {
  const { root, params, server, signal } = context;
  const selected = new Set(
    idsIn(
      params.get("runs"),
      server.runs.map(({ id }) => id),
    ),
  );
  let query = params.get("q") ?? "";
  const count = h("p", { class: "count", role: "status" });
  const actions = h("div", { class: "actions" });

  const checkbox = (id: string) => {
    const change = (event: Event) => {
      if ((event.target as HTMLInputElement).checked) selected.add(id);
      else selected.delete(id);
      update();
    };
    return h("input", { type: "checkbox", "aria-label": `Select ${id}`, value: id, checked: selected.has(id), change });
  };
  const name = (row: Row) =>
    isBroken(row)
      ? h(
          "span",
          {},
          h("span", { class: "id" }, row.id),
          h("span", { class: "badge bad" }, `unreadable: ${row.problem}`),
        )
      : h(
          "span",
          {},
          h("a", { class: "id", href: linkTo("run", { id: row.id }) }, row.id),
          row.interrupted ? h("span", { class: "badge" }, "interrupted") : undefined,
          row.refused !== undefined && refusedBadge(row),
        );
  const columns: readonly Column<Row>[] = [
    { name: "select", label: "", value: () => undefined, show: (row) => (isBroken(row) ? "" : checkbox(row.id)) },
    { name: "id", label: "Run", value: ({ id }) => id, show: name },
    column("trace", "Trace", ({ trace }) => trace, undefined, true),
    column("target", "Target", ({ target }) => target, undefined, true),
    column("policy", "Policy", policyOf),
    column("capacity", "Cache size, tokens", capacityOf, (tokens) =>
      tokens === Infinity ? "unlimited" : approximate(tokens),
    ),
    column("token", "Hit ratio", ({ hitRatio }) => hitRatio["token"], percent),
    { ...column("ttft", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50, milliseconds), csvLabel: "TTFT p50, ms" },
    { ...column("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99, milliseconds, true), csvLabel: "TTFT p99, ms" },
    column(
      "rate",
      "Requests/s",
      ({ requestsPerS }) => requestsPerS,
      (value) => value.toFixed(2),
      true,
    ),
    column("requests", "Requests", ({ requests }) => requests, integer, true),
    { ...column("saved", "Saved", ({ savedAtMs }) => savedAtMs, dateText, true), csvLabel: "Saved, ms since 1970" },
  ];
  const table = new Table<Row>({
    title: "Runs",
    columns,
    sort: params.get("sort") ?? "-saved",
    onSort: (sort) => updateRoute({ sort: sort === "-saved" ? "" : sort }),
    key: ({ id }) => id,
    rowClass: (row) => (isBroken(row) ? "broken" : selected.has(row.id) ? "selected" : ""),
  });

  const shown = () => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return server.runs.filter((row) => words.every((word) => contains(row, word)));
  };
  const draw = () => {
    const rows = shown();
    const broken = rows.filter(isBroken).length;
    count.textContent = `${integer(rows.length)} of ${integer(server.runs.length)} runs${broken ? `, ${broken} of them unreadable` : ""}`;
    table.show(rows);
    drawActions();
  };
  const update = () => {
    updateRoute({ runs: idList([...selected]), q: query });
    draw();
  };
  const selectShown = () => {
    const readable = shown().filter((row) => !isBroken(row));
    const areAllSelected = readable.every(({ id }) => selected.has(id));
    for (const { id } of readable) {
      if (areAllSelected) selected.delete(id);
      else selected.add(id);
    }
    update();
  };
  const drawActions = () => {
    const runs = idList([...selected]);
    actions.replaceChildren(
      h("button", { type: "button", click: selectShown }, "Select shown"),
      selected.size > 0
        ? h("a", { class: "button main", href: linkTo("compare", { runs }) }, `Compare ${selected.size}`)
        : h("span", { class: "hint" }, "Select runs to compare them."),
    );
  };
  const input = (event: Event) => {
    query = (event.target as HTMLInputElement).value;
    update();
  };
  const search = h("input", { type: "search", value: query, placeholder: "lru sim gpu=h200 seed=2 …", input });

  root.append(
    h("h1", {}, "Runs"),
    activeRunsCard(context),
    h("div", { class: "bar" }, h("label", { class: "field grow" }, h("span", {}, "Search"), search), actions),
    h("section", { class: "card" }, h("div", { class: "cardhead" }, count, table.csvButton()), table.element),
  );
  if (server.runs.length === 0)
    root.append(
      h(
        "p",
        { class: "hint" },
        server.folder.exists ? "There are no saved runs in " : "There is no folder ",
        h("code", {}, server.folder.path),
        server.folder.exists ? ". " : " yet; it is created when a run is saved. ",
        h("code", {}, "kvlab compare --out runs"),
        " saves some.",
      ),
    );
  table.element.addEventListener("keydown", moveFocus);
  draw();
  server.watch(draw, signal);
}

/** Whether a run contains a word of the search; a word with = is the beginning of a setting: gpu=h200. */
function contains(row: Row, word: string): boolean {
  const { text, settings } = searchable(row);
  return word.includes("=") ? settings.some((setting) => setting.startsWith(word)) : text.includes(word);
}

interface Searchable {
  /** The name, the policy and the values of all settings. */
  readonly text: string;
  /** As name=value. */
  readonly settings: readonly string[];
}

const searchables = new WeakMap<Row, Searchable>();

/** What the search finds a run by, in lower case. */
function searchable(row: Row): Searchable {
  const known = searchables.get(row);
  if (known) return known;
  const found = isBroken(row) ? { text: `${row.id} ${row.problem}`.toLowerCase(), settings: [] } : ofRun(row);
  searchables.set(row, found);
  return found;
}

function ofRun({ settings, ...row }: RunRow): Searchable {
  const { id, trace, target, preset, index, eviction, allocator, scheduler, blocks, blockTokens, requests } = row;
  const words = [id, trace, target, policyOf(row), index, scheduler, allocator, ...Object.values(settings)];
  const named = { trace, target, preset, index, eviction, allocator, scheduler, blocks, blockTokens, requests };
  return {
    text: words.join(" ").toLowerCase(),
    settings: Object.entries({ ...named, ...settings }).map(([name, value]) => `${name}=${value}`.toLowerCase()),
  };
}

/** The arrow keys up and down move the focus to the checkbox of the row before or after. */
function moveFocus(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const from = event.target;
  if (step === 0 || !(from instanceof HTMLInputElement)) return;
  event.preventDefault();
  const boxes = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLInputElement>("tbody input")];
  boxes[boxes.indexOf(from) + step]?.focus();
}

const capacityOf = ({ capacityTokens }: RunRow): number => capacityTokens ?? Number.POSITIVE_INFINITY;
