import type { BrokenRun, RunRow } from "../../api.ts";
import { activeRunsCard } from "../controls/active-runs.ts";
import { h } from "../controls/dom.ts";
import { refusedBadge } from "../controls/refused-badge.ts";
import { addTags, confirmDeletion, editButton, notesBadges, setHidden } from "../controls/run-notes.ts";
import { type Column, Table } from "../controls/table.ts";
import { approximate, dateText, integer, milliseconds, percent, policyOf } from "../data/format.ts";
import { searchFor } from "../data/search.ts";
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
  return { name, label, value, show: text, wide, optional: true };
}

/** All saved runs: search, sort, selection for a comparison, and what is noted about them. */
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
  let showsHidden = params.get("hidden") === "yes";
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
          h("span", { class: "badge bad" }, `incomplete: ${row.problem}`),
        )
      : runName(row);
  const runName = (row: RunRow) => {
    const { id, notes, interrupted } = row;
    const link = h("a", { class: "id", href: linkTo("run", { id }), title: notes?.text }, notes?.name ?? id);
    const badges = [
      interrupted && h("span", { class: "badge" }, "interrupted"),
      row.refused !== undefined && refusedBadge(row),
      ...notesBadges(row),
    ];
    const own = notes?.name !== undefined && h("span", { class: "of-name" }, id);
    return h("div", { class: "run-name" }, link, own, ...badges);
  };
  const columns: readonly Column<Row>[] = [
    { name: "select", label: "", value: () => undefined, show: (row) => (isBroken(row) ? "" : checkbox(row.id)) },
    { name: "id", label: "Run", value: nameOrId, show: name },
    {
      ...{ name: "edit", label: "", value: () => undefined },
      show: (row) => (isBroken(row) ? "" : editButton(row, context)),
    },
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
      "Throughput, req/s",
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

  const isHidden = (row: Row) => !isBroken(row) && row.notes?.hidden === true;
  const shown = () => {
    const isFound = searchFor(query);
    return server.runs.filter((row) => (showsHidden || !isHidden(row)) && isFound(row));
  };
  const draw = () => {
    const rows = shown();
    const [broken, hidden] = [rows.filter(isBroken).length, server.runs.filter(isHidden).length];
    const details = [
      ...(broken > 0 ? [`${broken} of them incomplete`] : []),
      ...(hidden > 0 && !showsHidden ? [`${integer(hidden)} hidden`] : []),
    ];
    count.textContent = [`${integer(rows.length)} of ${integer(server.runs.length)} runs`, ...details].join(", ");
    hiddenField.hidden = hidden === 0 && !showsHidden;
    table.show(rows);
    drawActions(rows);
  };
  const update = () => {
    updateRoute({ runs: idList([...selected]), q: query, hidden: showsHidden ? "yes" : "" });
    draw();
  };
  const selectAll = () => {
    const readable = shown().filter((row) => !isBroken(row));
    const areAllSelected = readable.every(({ id }) => selected.has(id));
    for (const { id } of readable) {
      if (areAllSelected) selected.delete(id);
      else selected.add(id);
    }
    update();
  };
  const drawActions = (listed: readonly Row[]) => {
    const runs = idList([...selected]);
    const rows = server.rows.filter(({ id }) => selected.has(id));
    const areAllHidden = rows.every(isHidden);
    const readable = listed.filter((row) => !isBroken(row));
    const areAllSelected = readable.length > 0 && readable.every(({ id }) => selected.has(id));
    const act = (label: string, click: () => void) => h("button", { type: "button", click }, label);
    actions.replaceChildren(
      act(areAllSelected ? "Select none" : "Select all", selectAll),
      ...(selected.size > 0
        ? [
            h("a", { class: "button main", href: linkTo("compare", { runs }) }, `Compare ${selected.size}`),
            act("Tag…", () => addTags(rows, context)),
            act(areAllHidden ? "Show again" : "Hide", () => void setHidden(rows, !areAllHidden, context)),
            act("Delete…", () => confirmDeletion(rows, context, (id) => selected.delete(id))),
          ]
        : [h("span", { class: "hint" }, "Select runs to compare, tag, hide or delete them.")]),
    );
  };
  const showHidden = (event: Event) => {
    showsHidden = (event.target as HTMLInputElement).checked;
    update();
  };
  const hiddenField = h(
    "label",
    { class: "checkbox-field" },
    h("input", { type: "checkbox", checked: showsHidden, change: showHidden }),
    "Hidden runs",
  );
  const input = (event: Event) => {
    query = (event.target as HTMLInputElement).value;
    update();
  };
  const search = h("input", { type: "search", value: query, placeholder: "lru gpu=h200 tag=paper …", input });

  root.append(
    h("h1", {}, "Runs"),
    activeRunsCard(context),
    h("div", { class: "bar" }, h("label", { class: "field grow" }, h("span", {}, "Search"), search), actions),
    h(
      "section",
      { class: "card" },
      h("div", { class: "cardhead" }, count, hiddenField, table.saveButtons()),
      table.element,
    ),
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

/** The arrow keys up and down move the focus to the checkbox of the row before or after. */
function moveFocus(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const from = event.target;
  if (step === 0 || !(from instanceof HTMLInputElement)) return;
  event.preventDefault();
  const boxes = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLInputElement>("tbody input")];
  boxes[boxes.indexOf(from) + step]?.focus();
}

const nameOrId = (row: Row): string => (isBroken(row) ? row.id : (row.notes?.name ?? row.id));

const capacityOf = ({ capacityTokens }: RunRow): number => capacityTokens ?? Number.POSITIVE_INFINITY;
