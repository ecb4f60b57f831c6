import { h } from "./dom.ts";
import { downloadCsv } from "./export.ts";

export interface Column<Row> {
  readonly name: string;
  readonly label: string;
  /** What it is sorted by and what CSV has. */
  value(row: Row): string | number | null | undefined;
  /** What is shown, if not the value. */
  show?(row: Row): Node | string;
  /** Left out on narrow screens. */
  readonly wide?: boolean;
}

export interface TableOptions<Row> {
  readonly title: string;
  readonly columns: readonly Column<Row>[];
  /** Column and direction: `name` or `-name`. */
  readonly sort?: string;
  readonly onSort?: (sort: string) => void;
  /** A class for a row. */
  rowClass?(row: Row): string;
}

/** A table that is sorted by its headings and saved as CSV. */
export class Table<Row> {
  readonly element: HTMLElement;
  readonly #options: TableOptions<Row>;
  readonly #head = h("tr");
  readonly #body = h("tbody");
  #rows: readonly Row[] = [];
  #sort: string;

  constructor(options: TableOptions<Row>) {
    this.#options = options;
    this.#sort = options.sort ?? "";
    const { title } = options;
    const table = h("table", {}, h("caption", { class: "unseen" }, title), h("thead", {}, this.#head), this.#body);
    this.element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, table);
  }

  /** A button that saves what is shown. */
  csvButton(): HTMLElement {
    const { title, columns } = this.#options;
    const click = () =>
      downloadCsv(
        title,
        columns.map(({ label }) => label),
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

  #isNumeric = (column: Column<Row>) => this.#rows.some((row) => typeof column.value(row) === "number");

  #draw(): void {
    const { columns, rowClass } = this.#options;
    const focused = document.activeElement?.closest("tr")?.dataset["at"];
    const numeric = columns.map((column) => this.#isNumeric(column));
    this.#head.replaceChildren(...columns.map((column) => this.#heading(column)));
    this.#body.replaceChildren(
      ...this.#sorted().map((row, at) =>
        h(
          "tr",
          { class: rowClass?.(row) || undefined, "data-at": at },
          ...columns.map((column, i) => {
            const value = column.value(row);
            return h("td", { class: classOf(column, numeric[i]) }, column.show?.(row) ?? String(value ?? "–"));
          }),
        ),
      ),
    );
    if (focused) this.#body.querySelector<HTMLElement>(`tr[data-at="${focused}"] input`)?.focus();
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
      this.#head.querySelector<HTMLElement>(`[data-name="${name}"]`)?.focus();
    };
    const button = h("button", { type: "button", class: "sort", "data-name": name, click }, label);
    return h("th", { scope: "col", class: classOf(column, numeric), "aria-sort": direction }, button);
  }
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
