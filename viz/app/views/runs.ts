import type { BrokenRun, RunRow } from "../../api.ts";
import { h } from "../controls/dom.ts";
import { approximate, integer, milliseconds, percent, policyOf, when } from "../controls/format.ts";
import { type Column, Table } from "../controls/table.ts";
import { underWayCard } from "../controls/under-way.ts";
import type { Page } from "../page.ts";
import { linkTo, remember } from "../route.ts";
import { isBroken } from "../server.ts";

type Row = RunRow | BrokenRun;

/** A column of whole runs; broken ones have nothing in it. */
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

/** Every saved run: searched, sorted, chosen. */
export function runsView(page: Page): void {
  const { root, params, live, left } = page;
  const chosen = new Set((params.get("runs") ?? "").split(",").filter(Boolean));
  let query = params.get("q") ?? "";
  const count = h("p", { class: "count", role: "status" });
  const actions = h("div", { class: "actions" });

  const tick = (id: string) => {
    const change = (event: Event) => {
      if ((event.target as HTMLInputElement).checked) chosen.add(id);
      else chosen.delete(id);
      keep();
    };
    return h("input", { type: "checkbox", "aria-label": `Choose ${id}`, value: id, checked: chosen.has(id), change });
  };
  const name = (row: Row) =>
    isBroken(row)
      ? h(
          "span",
          {},
          h("span", { class: "id" }, row.id),
          h("span", { class: "badge bad" }, `no whole run: ${row.problem}`),
        )
      : h(
          "span",
          {},
          h("a", { class: "id", href: linkTo("run", { id: row.id }) }, row.id),
          row.interrupted ? h("span", { class: "badge" }, "interrupted") : undefined,
        );
  const columns: readonly Column<Row>[] = [
    { name: "choose", label: "", value: () => undefined, show: (row) => (isBroken(row) ? "" : tick(row.id)) },
    { name: "id", label: "Run", value: ({ id }) => id, show: name },
    column("trace", "Trace", ({ trace }) => trace, undefined, true),
    column("target", "Target", ({ target }) => target, undefined, true),
    column("policy", "Policy", policyOf),
    column("capacity", "Cache, tokens", capacityOf, (tokens) =>
      tokens === Infinity ? "unlimited" : approximate(tokens),
    ),
    column("token", "Hit ratio", ({ hitRatio }) => hitRatio["token"], percent),
    { ...column("ttft", "TTFT p50", ({ ttftMsP50 }) => ttftMsP50, milliseconds), saved: "TTFT p50, ms" },
    { ...column("ttft99", "TTFT p99", ({ ttftMsP99 }) => ttftMsP99, milliseconds, true), saved: "TTFT p99, ms" },
    column(
      "rate",
      "Requests/s",
      ({ requestsPerS }) => requestsPerS,
      (value) => value.toFixed(2),
      true,
    ),
    column("requests", "Requests", ({ requests }) => requests, integer, true),
    { ...column("saved", "Saved", ({ savedAtMs }) => savedAtMs, when, true), saved: "Saved, ms since 1970" },
  ];
  const table = new Table<Row>({
    title: "Runs",
    columns,
    sort: params.get("sort") ?? "-saved",
    onSort: (sort) => remember({ sort: sort === "-saved" ? "" : sort }),
    key: ({ id }) => id,
    rowClass: (row) => (isBroken(row) ? "broken" : chosen.has(row.id) ? "chosen" : ""),
  });

  const shown = () => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row: Row) =>
      isBroken(row)
        ? `${row.id} ${row.problem}`
        : `${row.id} ${row.trace} ${row.target} ${policyOf(row)} ${row.index} ${row.scheduler}`;
    return live.runs.filter((row) => words.every((word) => text(row).toLowerCase().includes(word)));
  };
  const draw = () => {
    const rows = shown();
    const broken = rows.filter(isBroken).length;
    count.textContent = `${integer(rows.length)} of ${integer(live.runs.length)} runs${broken ? `, ${broken} of them not whole` : ""}`;
    table.show(rows);
    drawActions();
  };
  const keep = () => {
    remember({ runs: [...chosen].join(","), q: query });
    draw();
  };
  const chooseShown = () => {
    const whole = shown().filter((row) => !isBroken(row));
    const all = whole.every(({ id }) => chosen.has(id));
    for (const { id } of whole) {
      if (all) chosen.delete(id);
      else chosen.add(id);
    }
    keep();
  };
  const drawActions = () => {
    const runs = [...chosen].join(",");
    actions.replaceChildren(
      h("button", { type: "button", click: chooseShown }, "Choose shown"),
      chosen.size > 0
        ? h("a", { class: "button main", href: linkTo("compare", { runs }) }, `Compare ${chosen.size}`)
        : h("span", { class: "hint" }, "Choose runs to compare them."),
    );
  };
  const input = (event: Event) => {
    query = (event.target as HTMLInputElement).value;
    keep();
  };
  const search = h("input", { type: "search", value: query, placeholder: "lru sim mooncake …", input });

  root.append(
    h("h1", {}, "Runs"),
    underWayCard(page),
    h("div", { class: "bar" }, h("label", { class: "field grow" }, h("span", {}, "Search"), search), actions),
    h("section", { class: "card" }, h("div", { class: "cardhead" }, count, table.csvButton()), table.element),
  );
  if (live.runs.length === 0)
    root.append(
      h(
        "p",
        { class: "hint" },
        "There is no run yet. ",
        h("code", {}, "kvlab compare"),
        " with --out runs makes some.",
      ),
    );
  table.element.addEventListener("keydown", walk);
  draw();
  live.watch(draw, left);
}

/** Up and down go from one row's tick to the next. */
function walk(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const from = event.target;
  if (step === 0 || !(from instanceof HTMLInputElement)) return;
  event.preventDefault();
  const ticks = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLInputElement>("tbody input")];
  ticks[ticks.indexOf(from) + step]?.focus();
}

const capacityOf = ({ capacityTokens }: RunRow): number => capacityTokens ?? Number.POSITIVE_INFINITY;
