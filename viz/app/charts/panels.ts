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

/** Several panels as one SVG with their titles; undefined for a single one. */
export function joinedSvg(body: HTMLElement): SVGSVGElement | undefined {
  const panels = [...body.querySelectorAll<HTMLElement>(".panel")];
  if (panels.length < 2) return undefined;
  const space = "http://www.w3.org/2000/svg";
  const outer = body.getBoundingClientRect();
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("width", String(outer.width));
  svg.setAttribute("height", String(outer.height));
  for (const panel of panels) {
    const drawing = panel.querySelector("svg");
    if (!drawing) continue;
    const box = drawing.getBoundingClientRect();
    const [x, y] = [box.left - outer.left, box.top - outer.top];
    const copy = drawing.cloneNode(true) as SVGSVGElement;
    copy.setAttribute("x", String(x));
    copy.setAttribute("y", String(y));
    const title = document.createElementNS(space, "text");
    for (const [name, value] of Object.entries({ x, y: y - 8, class: "names", fill: "currentColor" }))
      title.setAttribute(name, String(value));
    title.textContent = panel.querySelector("h3")?.textContent ?? "";
    svg.append(copy, title);
  }
  return svg;
}
