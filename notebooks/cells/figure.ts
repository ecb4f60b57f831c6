import * as Plot from "@observablehq/plot";

/** Colours by number, which readers with protanopia or deuteranopia can tell apart on a light background. */
export const colours = ["#1b62c4", "#c2570c", "#0f7b52", "#8b3fa8", "#b3261e", "#5b6b00", "#00728f", "#6b4a2b"];

export interface Figure extends Plot.PlotOptions {
  readonly title: string;
  /** What was measured, or where it is from: below the figure. */
  readonly caption: string;
}

/** A figure with a title, a caption, and a description for screen readers. */
export function figure({ title, caption, ...options }: Figure): HTMLElement | SVGSVGElement {
  const plot = Plot.plot({
    title,
    caption,
    ariaLabel: title,
    ariaDescription: caption,
    style: { fontSize: "13px" },
    marginBottom: 45,
    grid: true,
    ...options,
    color: {
      ...(options.color?.scheme ? {} : { range: colours }),
      ...options.color,
      legend: options.color?.domain !== undefined,
    },
  });
  // Without a role, the label of a group is not valid for screen readers.
  for (const group of plot.querySelectorAll("g[aria-label]")) group.setAttribute("role", "group");
  return plot;
}

/** A margin in pixels in which these labels of an axis fit. */
export const labelMargin = (labels: readonly string[]): number =>
  30 + 7 * Math.max(0, ...labels.map(({ length }) => length));

/** A share in percent: 0.2116 is "21.2 %". */
export const percent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`;

/** A number with three significant digits, and separators between thousands. */
export const short = (value: number): string =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));

export interface Column<Row> {
  readonly label: string;
  /** A text is aligned to the left, a number to the right; undefined: an empty cell. */
  of(row: Row): string | number | undefined;
}

export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[], caption: string): HTMLElement {
  const element = document.createElement("table");
  element.createCaption().textContent = caption;
  const head = element.createTHead().insertRow();
  for (const { label } of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = label;
    head.append(cell);
  }
  const body = element.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const { of } of columns) {
      const value = of(row);
      const cell = line.insertCell();
      cell.textContent = typeof value === "number" ? short(value) : (value ?? "");
      if (typeof value === "number") cell.style.textAlign = "right";
    }
  }
  const scrolled = document.createElement("div");
  scrolled.style.overflowX = "auto";
  scrolled.tabIndex = 0;
  scrolled.setAttribute("role", "region");
  scrolled.setAttribute("aria-label", caption);
  scrolled.append(element);
  return scrolled;
}

/** Texts as paragraphs. */
export function paragraphs(texts: readonly string[]): HTMLElement {
  const element = document.createElement("div");
  for (const text of texts) element.append(Object.assign(document.createElement("p"), { textContent: text }));
  return element;
}
