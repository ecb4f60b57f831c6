import { h } from "./dom.ts";
import { downloadCsv } from "./export.ts";

export interface Column<Row> {
  readonly name: string;
  /** In the page; without one it is not saved. */
  readonly label: string;
  /** In CSV, with the unit, if that is not the label. */
  readonly saved?: string;
  /** What it is sorted by and what CSV has. */
  value(row: Row): string | number | null | undefined;
  /** What is shown, if not the value. */
  show?(row: Row): Node | string;
  /** Of numbers, also where there is none. */
  readonly numeric?: boolean;
  /** Left out on narrow screens. */
  readonly wide?: boolean;
}

export interface TableOptions<Row> {
  readonly title: string;
  readonly columns: readonly Column<Row>[];
  /** Column and direction: `name` or `-name`. */
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
  /** What a row is known by when the rows change; else its place. */
  key?(row: Row): string | number;
  /** A class for a row. */
  rowClass?(row: Row): string;
}

/** A table that is sorted by its headings and saved as CSV. */
export class Table<Row> {
  readonly element: HTMLElement;
  readonly #options: TableOptions<Row>;
  readonly #head = h("tr");
  readonly #body = h("tbody");
  readonly #more = h("p", { class: "hint", hidden: true });
  #rows: readonly Row[] = [];
  #sort: string;

  constructor(options: TableOptions<Row>) {
    this.#options = options;
    this.#sort = options.sort ?? "";
    const { title } = options;
    const table = h("table", {}, h("caption", { class: "unseen" }, title), h("thead", {}, this.#head), this.#body);
    this.element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, table, this.#more);
  }

  /** A button that saves what is shown. */
  csvButton(): HTMLElement {
    const { title } = this.#options;
    const columns = this.#options.columns.filter(({ label }) => label !== "");
    const click = () =>
      downloadCsv(
        title,
        columns.map(({ label, saved }) => saved ?? label),
        this.#sorted().map((row) => columns.map((column) => column.value(row))),
      );
    const label = `${title}: save as CSV`;
    return h("div", { class: "exports" }, h("button", { type: "button", "aria-label": label, click }, "CSV"));
  }

  show(rows: readonly Row[]): void {
    this.#rows = rows;
    this.#draw();
  }

  #sorted(): readonly Row[] {
    const name = this.#sort.replace(/^-/, "");
    const column = this.#options.columns.find((each) => each.name === name);
    if (!column) return this.#rows;
    const sign = this.#sort.startsWith("-") ? -1 : 1;
    return [...this.#rows].sort((a, b) => compare(column.value(a), column.value(b), sign));
  }

  #isNumeric = (column: Column<Row>) =>
    column.numeric ?? this.#rows.some((row) => typeof column.value(row) === "number");

  /** What is as it was stays in the page, with its focus and a button that is just pressed. */
  #draw(): void {
    const { columns, rowClass, key } = this.#options;
    const focused = document.activeElement;
    const numeric = columns.map((column) => this.#isNumeric(column));
    replaceCells(
      this.#head,
      columns.map((column) => this.#heading(column)),
    );
    const before = new Map([...this.#body.rows].map((row) => [row.dataset["key"], row]));
    const sorted = this.#sorted();
    this.#more.hidden = sorted.length <= mostRows;
    this.#more.textContent = `These are the first ${mostRows} of ${sorted.length}; CSV has all.`;
    const rows = sorted.slice(0, mostRows).map((row, at) => {
      const known = String(key?.(row) ?? at);
      const shown = before.get(known) ?? h("tr", { "data-key": known });
      shown.className = rowClass?.(row) ?? "";
      replaceCells(
        shown,
        columns.map((column, i) =>
          h("td", { class: classOf(column, numeric[i]) }, column.show?.(row) ?? String(column.value(row) ?? "–")),
        ),
      );
      return shown;
    });
    const kept = new Set(rows);
    for (const row of before.values()) if (!kept.has(row)) row.remove();
    rows.forEach((row, at) => {
      if (this.#body.rows[at] !== row) this.#body.insertBefore(row, this.#body.rows[at] ?? null);
    });
    if (focused !== document.activeElement && focused instanceof HTMLElement && this.element.contains(focused))
      focused.focus();
  }

  #heading(column: Column<Row>): HTMLElement {
    const { name, label } = column;
    const numeric = this.#isNumeric(column);
    if (label === "") return h("td", {});
    const direction = this.#sort === name ? "ascending" : this.#sort === `-${name}` ? "descending" : "none";
    const click = () => {
      this.#sort =
        direction === "descending" ? name : direction === "ascending" ? `-${name}` : firstOrder(name, numeric);
      this.#options.onSort?.(this.#sort);
      this.#draw();
    };
    const button = h("button", { type: "button", class: "sort", "data-name": name, click }, label);
    return h("th", { scope: "col", class: classOf(column, numeric), "aria-sort": direction }, button);
  }
}

/** A browser is slow with more, and nobody reads them. */
const mostRows = 1000;

/** Cells that say something else are exchanged; what has the focus in one passes it on. */
function replaceCells(row: HTMLTableRowElement, cells: readonly HTMLElement[]): void {
  const old = [...row.children];
  cells.forEach((cell, i) => {
    if (old[i] === undefined) row.append(cell);
    else if (!old[i].isEqualNode(cell)) {
      const hadFocus = old[i].contains(document.activeElement);
      old[i].replaceWith(cell);
      if (hadFocus) cell.querySelector<HTMLElement>("a, button, input")?.focus();
    }
  });
  for (const gone of old.slice(cells.length)) gone.remove();
}

/** Numbers begin with the largest. */
const firstOrder = (name: string, numeric: boolean) => (numeric ? `-${name}` : name);

const classOf = ({ wide }: { readonly wide?: boolean }, numeric: boolean) =>
  [numeric && "number", wide && "wide"].filter(Boolean).join(" ") || undefined;

type Value = string | number | null | undefined;

/** What is not there comes last, whichever way it is sorted. */
function compare(a: Value, b: Value, sign: number): number {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
}
