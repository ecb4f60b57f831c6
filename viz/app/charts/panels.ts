import { h } from "../controls/dom.ts";

/** The chart of a panel. */
export interface Chart<Data> {
  update(data: Data): void;
  /** Draws at the current width. */
  draw(): void;
}

/** A panel to show: its data, and the chart that draws them. */
export interface PanelContent<Data = unknown> {
  /** Empty for a panel without a heading. */
  readonly title: string;
  /** Panels of one kind are drawn by the same chart when their data change. */
  readonly kind: string;
  readonly data: Data;
  create(host: HTMLElement): Chart<Data>;
}

/** Small multiples of a figure, which keep their charts while their number and kind stay. */
export class Panels {
  readonly #body: HTMLElement;
  #key: string | undefined;
  #charts: Chart<unknown>[] = [];

  constructor(body: HTMLElement) {
    this.#body = body;
  }

  show<Data>(contents: readonly PanelContent<Data>[]): void {
    const key = contents.map(({ kind, title }) => `${kind} ${title}`).join("\n");
    if (key !== this.#key) this.#build(contents);
    this.#key = key;
    contents.forEach(({ data }, i) => {
      this.#charts[i].update(data);
    });
  }

  #build<Data>(contents: readonly PanelContent<Data>[]): void {
    const hosts = contents.map(() => h("div", { class: "panel-drawing" }));
    const panels = contents.map(({ title }, i) =>
      h("div", { class: "panel" }, title !== "" && h("h3", {}, title), hosts[i]),
    );
    this.#body.replaceChildren(contents.length === 1 ? panels[0] : h("div", { class: "panels" }, ...panels));
    this.#charts = contents.map(({ create }, i) => create(hosts[i]) as Chart<unknown>);
  }

  draw(): void {
    for (const chart of this.#charts) chart.draw();
  }
}

const space = "http://www.w3.org/2000/svg";

/** Several panels with their titles, or one with colour keys, as one SVG; undefined: the drawing is one SVG as it is. */
export function joinedSvg(body: HTMLElement): SVGSVGElement | undefined {
  const [drawings, titles] = [[...body.querySelectorAll("svg")], [...body.querySelectorAll("h3")]];
  const keys = [...body.querySelectorAll<HTMLElement>(".keys > span")];
  if (drawings.length < 2 && keys.length === 0) return undefined;
  const outer = body.getBoundingClientRect();
  const svg = element("svg", { width: outer.width, height: outer.height });
  const placeOf = (inner: Element) => {
    const { left, top, width, height } = inner.getBoundingClientRect();
    return { x: left - outer.left, y: top - outer.top, width, height };
  };
  const text = (inner: Element, x: number, attributes: Attributes) => {
    const { y, height } = placeOf(inner);
    const created = element("text", { x, y: y + height / 2 + 5, fill: "currentColor", ...attributes });
    created.textContent = inner.textContent;
    return created;
  };
  for (const drawing of drawings) {
    const copy = drawing.cloneNode(true) as SVGSVGElement;
    const { x, y } = placeOf(drawing);
    copy.setAttribute("x", String(x));
    copy.setAttribute("y", String(y));
    svg.append(copy);
  }
  svg.append(...titles.map((title) => text(title, placeOf(title).x, { class: "names" })));
  for (const key of keys) {
    const swatch = key.querySelector<HTMLElement>(".swatch")!;
    const place = placeOf(swatch);
    svg.append(element("rect", { ...place, rx: 3, fill: swatch.style.background }));
    svg.append(text(key, place.x + place.width + 6, { "font-size": 13 }));
  }
  return svg as SVGSVGElement;
}

type Attributes = Readonly<Record<string, string | number>>;

function element(name: string, attributes: Attributes): SVGElement {
  const created = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, String(value));
  return created;
}
