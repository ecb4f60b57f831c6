import { h } from "./dom.ts";
import { downloadTable, type TableFormat, tableFormats } from "./download.ts";

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
  /** Left out if no row has a value. */
  readonly optional?: boolean;
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

/** A table that is sorted by clicks on its headings and saved as CSV, Markdown and LaTeX. */
export class Table<Row> {
  readonly element: HTMLElement;
  readonly #options: TableOptions<Row>;
  readonly #head = h("tr");
  readonly #body = h("tbody");
  readonly #more = h("p", { class: "hint", hidden: true });
  #rows: readonly Row[] = [];
  /** Number of rows on the page. */
  #drawn = rowsAtOnce;
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
    this.element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, table, this.#more);
    this.element.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.element;
      if (scrollTop + clientHeight > scrollHeight - nearEndPx) this.#drawMore();
    });
  }

  /** Buttons that save all rows in the shown order: CSV has the values, Markdown and LaTeX the texts. */
  saveButtons(): HTMLElement {
    const { title } = this.#options;
    const save = (format: TableFormat) => () => {
      const columns = this.#columns.filter(({ label }) => label !== "");
      const rows = this.#sorted();
      if (format === "CSV") {
        const header = columns.map(({ label, csvLabel }) => csvLabel ?? label);
        const values = rows.map((row) => columns.map((column) => column.value(row)));
        return downloadTable(title, format, { header, rows: values, areNumbers: [] });
      }
      const areNumbers = columns.map((column) => this.#isNumeric(column));
      const texts = rows.map((row) => columns.map((column, i) => textOf(column, row, areNumbers[i])));
      downloadTable(title, format, { header: columns.map(({ label }) => label), rows: texts, areNumbers });
    };
    const buttons = tableFormats.map((format) =>
      h("button", { type: "button", "aria-label": `${title}: save as ${format}`, click: save(format) }, format),
    );
    return h("div", { class: "exports" }, ...buttons);
  }

  show(rows: readonly Row[]): void {
    this.#rows = rows;
    this.#draw();
  }

  /** The columns that are shown. */
  get #columns(): readonly Column<Row>[] {
    const hasValue = (column: Column<Row>) => this.#rows.some((row) => (column.value(row) ?? undefined) !== undefined);
    return this.#options.columns.filter((column) => !column.optional || hasValue(column));
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

  /** The columns that are shown, each with whether its values are numbers. */
  #numbered = () => this.#columns.map((column) => ({ ...column, numeric: this.#isNumeric(column) }));

  /** Unchanged elements are kept, with the focus and a pressed button. */
  #draw(): void {
    const { key } = this.#options;
    const focused = document.activeElement;
    const columns = this.#numbered();
    replaceCells(
      this.#head,
      columns.map((column) => this.#heading(column)),
    );
    const before = new Map([...this.#body.rows].map((row) => [row.dataset["key"], row]));
    const sorted = this.#sorted();
    this.#noteMore(sorted.length);
    const rows = sorted.slice(0, this.#drawn).map((row, at) => {
      const known = String(key?.(row) ?? at);
      return this.#fill(before.get(known) ?? h("tr", { "data-key": known }), row, columns);
    });
    const kept = new Set(rows);
    for (const row of before.values()) if (!kept.has(row)) row.remove();
    rows.forEach((row, at) => {
      if (this.#body.rows[at] !== row) this.#body.insertBefore(row, this.#body.rows[at] ?? null);
    });
    if (focused !== document.activeElement && focused instanceof HTMLElement && this.element.contains(focused))
      focused.focus();
  }

  #fill(shown: HTMLTableRowElement, row: Row, columns: readonly Column<Row>[]): HTMLTableRowElement {
    shown.className = this.#options.rowClass?.(row) ?? "";
    const content = (column: Column<Row>) => column.show?.(row) ?? String(column.value(row) ?? "–");
    replaceCells(
      shown,
      columns.map((column) => h("td", { class: classOf(column) }, content(column))),
    );
    return shown;
  }

  /** Adds rows to the page; those on it stay as they are. */
  #drawMore(): void {
    const sorted = this.#sorted();
    const first = this.#body.rows.length;
    if (first >= sorted.length) return;
    const columns = this.#numbered();
    this.#drawn = first + rowsAtOnce;
    const added = sorted
      .slice(first, this.#drawn)
      .map((row, i) => this.#fill(h("tr", { "data-key": this.#options.key?.(row) ?? first + i }), row, columns));
    this.#body.append(...added);
    this.#noteMore(sorted.length);
  }

  /** States how many rows are not on the page yet. */
  #noteMore(count: number): void {
    this.#more.hidden = count <= this.#drawn;
    const more = h("button", { type: "button", class: "small", click: () => this.#drawMore() }, "Show more");
    this.#more.replaceChildren(`${this.#drawn} of ${count} rows; saved tables have all. `, more);
  }

  #heading(column: Column<Row>): HTMLElement {
    const { name, label, numeric = false } = column;
    if (label === "") return h("td", {});
    const direction = this.#sort === name ? "ascending" : this.#sort === `-${name}` ? "descending" : "none";
    const click = () => {
      this.#sort =
        direction === "descending" ? name : direction === "ascending" ? `-${name}` : firstOrder(name, numeric);
      this.#options.onSort?.(this.#sort);
      this.#draw();
    };
    const button = h("button", { type: "button", class: "sort", "data-name": name, click }, label);
    return h("th", { scope: "col", class: classOf(column), "aria-sort": direction }, button);
  }
}

/** Rows that are added to the page at once: layout is slow with thousands. */
const rowsAtOnce = 100;
/** Distance from the end of the table at which more rows are added. */
const nearEndPx = 800;

/** The text of a cell: of a column of numbers with their units, of others the value. */
function textOf<Row>(column: Column<Row>, row: Row, isNumber: boolean): string {
  const value = column.value(row);
  if (!isNumber || !column.show) return String(value ?? "–");
  const shown = column.show(row);
  return typeof shown === "string" ? shown : (shown.textContent ?? "");
}

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

const classOf = ({ wide, numeric }: { readonly wide?: boolean; readonly numeric?: boolean }) =>
  [numeric && "number", wide && "wide"].filter(Boolean).join(" ") || undefined;

type Value = string | number | null | undefined;

const naturally = new Intl.Collator(undefined, { numeric: true }).compare;

/** Missing values are last in both directions. */
function compare(a: Value, b: Value, sign: number): number {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * naturally(String(a), String(b));
}
