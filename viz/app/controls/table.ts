import { h } from "./dom.ts";
import { downloadCsv } from "./download.ts";

export interface Column<Row> {
  readonly name: string;
  /** Heading; a column with "" is not exported. */
  readonly label: string;
  /** Heading in CSV, with the unit, if it differs from the label. */
  readonly csvLabel?: string;
  /** The value for sorting and for CSV. */
  value(row: Row): string | number | null | undefined;
  /** The content of the cell, if it is not the value. */
  show?(row: Row): Node | string;
  /** Whether the values are numbers; otherwise derived from the rows. */
  readonly numeric?: boolean;
  /** Hidden on narrow screens. */
  readonly wide?: boolean;
}

export interface TableOptions<Row> {
  readonly title: string;
  readonly columns: readonly Column<Row>[];
  /** Initial sort column: `name` ascending, `-name` descending. */
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
  /** Identifies a row across updates; otherwise its position does. */
  key?(row: Row): string | number;
  /** CSS class of a row. */
  rowClass?(row: Row): string;
}

/** A table that is sorted by clicks on its headings and exported as CSV. */
export class Table<Row> {
  readonly element: HTMLElement;
  readonly #options: TableOptions<Row>;
  readonly #head = h("tr");
  readonly #body = h("tbody");
  readonly #limitNote = h("p", { class: "hint", hidden: true });
  #rows: readonly Row[] = [];
  #sort: string;

  constructor(options: TableOptions<Row>) {
    this.#options = options;
    this.#sort = options.sort ?? "";
    const { title } = options;
    const table = h(
      "table",
      {},
      h("caption", { class: "visually-hidden" }, title),
      h("thead", {}, this.#head),
      this.#body,
    );
    this.element = h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": title },
      table,
      this.#limitNote,
    );
  }

  /** A button that exports all rows in the shown order. */
  csvButton(): HTMLElement {
    const { title } = this.#options;
    const columns = this.#options.columns.filter(({ label }) => label !== "");
    const click = () =>
      downloadCsv(
        title,
        columns.map(({ label, csvLabel }) => csvLabel ?? label),
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

  /** Unchanged elements are kept, with the focus and a pressed button. */
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
    this.#limitNote.hidden = sorted.length <= maxRows;
    this.#limitNote.textContent = `The first ${maxRows} of ${sorted.length} rows are shown; the CSV file has all.`;
    const rows = sorted.slice(0, maxRows).map((row, at) => {
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

/** Rows on the page; layout is slow with more. */
const maxRows = 1000;

/** Replaces the cells that differ; the focus moves from a replaced cell to its replacement. */
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
  for (const extra of old.slice(cells.length)) extra.remove();
}

/** Numbers are first sorted in descending order. */
const firstOrder = (name: string, numeric: boolean) => (numeric ? `-${name}` : name);

const classOf = ({ wide }: { readonly wide?: boolean }, numeric: boolean) =>
  [numeric && "number", wide && "wide"].filter(Boolean).join(" ") || undefined;

type Value = string | number | null | undefined;

/** Missing values are last in both directions. */
function compare(a: Value, b: Value, sign: number): number {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), undefined, { numeric: true });
}
